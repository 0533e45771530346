// Correctly rounded quotients, products and roundings. Include common/mathf.glsl first.

// The quotient as IEEE division rounds it; Vulkan allows a device to be off by 2.5 ulp.
vec4 ieee_quotient(vec4 v, vec4 w) {
    vec4 q = v / w;
    vec4 better = q + m_residue(v, q, w) / w;
    vec4 size = abs(q);
    return if_(lessThan(size, vec4(16777216.0)), if_(greaterThan(size, vec4(1e-3)), better, q), q);
}

// The same for w of 2^-60 to 2^60 in size; high: m_high_part(w).
vec4 near_quotient(vec4 v, vec4 w, vec4 high) {
    vec4 q = v / w;
    vec4 better = q + m_near_residue(v, q, w, high) / w;
    return if_(lessThan(abs(q), vec4(16777216.0)), better, q);  // beyond, parts may overflow
}

// a b + c rounded once, but for a rare double rounding (fma() may round twice on a device). Where
// parts of the sum would not be finite, as it comes.
vec4 m_fma(vec4 a, vec4 b, vec4 c) {
    precise vec4 p = a * b;
    precise vec4 s = p + c;
    precise vec4 back = s - p;
    precise vec4 rest = ((p - (s - back)) + (c - back)) - m_residue(p, a, b);
    precise vec4 y = s + rest;
    vec4 largest = max(max(abs(a), abs(b)), abs(s));
    return if_(lessThan(largest, vec4(1e34)), y, s);
}

// The nearest integer, halves away from zero.
vec4 half_away(vec4 v) {
    vec4 whole = trunc(v);
    return whole + if_(lessThan(abs(v - whole), vec4(0.5)), vec4(0.0), sign(v));
}
