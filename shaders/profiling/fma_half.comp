#version 450
#pragma vknn variants VECTORS=1,2,4
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "common/tensor.glsl"

// Multiply-adds of float16 in registers: VECTORS chains of vec4, sixteen steps in a row. As
// profiling/fma otherwise.
OUTPUT1(0, y);
layout(push_constant) uniform P { int rounds; float factor, summand; } p;

#define CHAIN(v) v = v * factor + summand;
#if VECTORS == 1
#define STEP CHAIN(a)
#elif VECTORS == 2
#define STEP CHAIN(a) CHAIN(b)
#else
#define STEP CHAIN(a) CHAIN(b) CHAIN(c) CHAIN(d)
#endif
#define STEP4 STEP STEP STEP STEP

void main() {
    f16vec4 factor = f16vec4(p.factor), summand = f16vec4(p.summand);
    f16vec4 a = f16vec4(vec4(float(gl_LocalInvocationID.x)) + vec4(0.0, 1.0, 2.0, 3.0));
    f16vec4 b = a + f16vec4(4.0), c = a + f16vec4(8.0), d = a + f16vec4(12.0);
    for (int i = 0; i < p.rounds; i++) {
        STEP4 STEP4 STEP4 STEP4
    }
    // Never true, but only the run can tell.
    float sum = dot(vec4(a + b + c + d), vec4(1.0));
    if (sum == -1.0) STORE1(y, 0, sum);
}
