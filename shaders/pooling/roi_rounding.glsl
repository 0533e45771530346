// Arithmetic on the corners of regions that has to be exact.

#include "common/mathf.glsl"

// a / b rounded as IEEE has it, which a device's division need not be.
float divided(float a, float b) {
    precise float q = a / b;
    precise float better = q + m_residue(vec4(a), vec4(q), vec4(b)).x / b;
    return better;
}

// Halves away from 0.
float rounded(float v) {
    float whole = trunc(v);
    return abs(v - whole) >= 0.5 ? whole + (v < 0.0 ? -1.0 : 1.0) : whole;
}
