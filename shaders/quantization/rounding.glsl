// Quotients and roundings that have to be right to the last digit. common/mathf.glsl comes before.

// The quotient as IEEE division rounds it; Vulkan allows a device to be off by 2.5 ulp.
vec4 ieee_quotient(vec4 v, vec4 w) {
    vec4 q = v / w;
    vec4 better = q + m_residue(v, q, w) / w;
    vec4 size = abs(q);
    return if_(lessThan(size, vec4(16777216.0)), if_(greaterThan(size, vec4(1e-3)), better, q), q);
}

// The nearest whole number, halves away from zero.
vec4 half_away(vec4 v) {
    vec4 whole = trunc(v);
    return whole + if_(lessThan(abs(v - whole), vec4(0.5)), vec4(0.0), sign(v));
}
