#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"

// y[i] = a float that takes p.count steps to compute (llvmpipe ends a loop after 65,535 of them).
OUTPUT1(0, y);
layout(push_constant) uniform P { int count; } p;

void main() {
    float v = 1.0;
    for (int i = 0; i < p.count; i++) v = fract(v * 1.618 + 0.1);
    STORE1(y, int(gl_GlobalInvocationID.x) % 16, v);
}
