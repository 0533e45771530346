// Residues of products with their rounding error. Include common/mathf.glsl, which includes this.

// The upper twelve bits of a number's significand (Veltkamp's split).
vec4 m_high_part(vec4 v) {
    precise vec4 s = v * 4097.0;
    precise vec4 high = s - (s - v);
    return high;
}

// a - q b with the product's rounding error (Dekker's product), where no part overflows. `high`: that of b.
vec4 m_near_residue(vec4 a, vec4 q, vec4 b, vec4 high) {
    vec4 qh = m_high_part(q);
    precise vec4 ql = q - qh;
    precise vec4 low = b - high;
    precise vec4 p = q * b;
    precise vec4 e = ((qh * high - p) + qh * low + ql * high) + ql * low;
    precise vec4 r = (a - p) - e;
    return r;
}

// The same for any numbers. The split of a number near the largest one would be infinite: it is made in
// another unit.
vec4 m_residue(vec4 a, vec4 q, vec4 b) {
    bvec4 far_q = greaterThan(abs(q), vec4(1e30)), far_b = greaterThan(abs(b), vec4(1e30));
    vec4 unit_q = if_(far_q, vec4(M_SMALL), vec4(1.0)), unit_b = if_(far_b, vec4(M_SMALL), vec4(1.0));
    precise vec4 near_a = a * unit_q * unit_b, near_q = q * unit_q, near_b = b * unit_b;
    vec4 r = m_near_residue(near_a, near_q, near_b, m_high_part(near_b));
    return r * if_(far_q, vec4(M_LARGE), vec4(1.0)) * if_(far_b, vec4(M_LARGE), vec4(1.0));
}
