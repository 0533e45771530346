#version 450
#pragma vknn variants VECTORS=1,2,4
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "quantized/integer_dots.glsl"

// Dot products of four bytes by four in registers, each added up in int32: VECTORS chains of four,
// sixteen steps in a row. Every product takes the sum before it, so that none can be left out.
OUTPUT1(0, y);
layout(push_constant) uniform P { int rounds; int factor; } p;

#define CHAIN(v) v += ivec4( \
    dot_of_data(v.x, p.factor), dot_of_data(v.y, p.factor), \
    dot_of_data(v.z, p.factor), dot_of_data(v.w, p.factor));
#if VECTORS == 1
#define STEP CHAIN(a)
#elif VECTORS == 2
#define STEP CHAIN(a) CHAIN(b)
#else
#define STEP CHAIN(a) CHAIN(b) CHAIN(c) CHAIN(d)
#endif
#define STEP4 STEP STEP STEP STEP

void main() {
    ivec4 a = ivec4(int(gl_GlobalInvocationID.x)) + ivec4(0, 1, 2, 3);
    ivec4 b = a + 4, c = a + 8, d = a + 12;
    for (int i = 0; i < p.rounds; i++) {
        STEP4 STEP4 STEP4 STEP4
    }
    // Hardly ever true, but only the run can tell.
    ivec4 sum = a + b + c + d;
    if (sum == ivec4(-1234567)) STORE1(y, 0, float(sum.x));
}
