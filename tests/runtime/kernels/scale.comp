#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"

// y = FACTOR * x + p.offset + weight[i], vec4 by vec4.
layout(constant_id = 10) const float FACTOR = 1.0;
layout(constant_id = 11) const bool NEGATE = false;
INPUT4(0, x);
INPUT4(1, w);
OUTPUT4(2, y);
layout(push_constant) uniform P { int count; float offset; } p;

void main() {
    int i = int(gl_GlobalInvocationID.x);
    if (i >= p.count) return;
    vec4 v = FACTOR * LOAD4(x, i) + p.offset + LOAD4(w, i);
    STORE4(y, i, NEGATE ? -v : v);
}
