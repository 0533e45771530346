#version 450
#pragma vknn variants VECTORS=1,2,3,4 STEPS=4,16,64
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"

// Multiply-adds in registers: VECTORS chains of vec4, each step waiting for the one before it in its
// own chain only. STEPS of them stand in a row in the loop: few leave the loop its weight, many do
// not fit where a processor keeps what it has decoded. The factors are push constants, so nothing
// can be computed beforehand. Written as a product and a sum, which drivers contract as they like.
OUTPUT1(0, y);
layout(push_constant) uniform P { int rounds; float factor, summand; } p;

#define CHAIN(v) v = v * factor + summand;
#if VECTORS == 1
#define STEP CHAIN(a)
#elif VECTORS == 2
#define STEP CHAIN(a) CHAIN(b)
#elif VECTORS == 3
#define STEP CHAIN(a) CHAIN(b) CHAIN(c)
#else
#define STEP CHAIN(a) CHAIN(b) CHAIN(c) CHAIN(d)
#endif
#define STEP4 STEP STEP STEP STEP
#define STEP16 STEP4 STEP4 STEP4 STEP4

void main() {
    vec4 factor = vec4(p.factor), summand = vec4(p.summand);
    vec4 a = vec4(float(gl_GlobalInvocationID.x)) + vec4(0.0, 1.0, 2.0, 3.0);
    vec4 b = a + 4.0, c = a + 8.0, d = a + 12.0;
    for (int i = 0; i < p.rounds; i++) {
#if STEPS == 4
        STEP4
#elif STEPS == 16
        STEP16
#else
        STEP16 STEP16 STEP16 STEP16
#endif
    }
    // Never true, but only the run can tell.
    float sum = dot(a + b + c + d, vec4(1.0));
    if (sum == -1.0) STORE1(y, 0, sum);
}
