#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"
#include "common/bfloat16.glsl"

// The nearest bfloat16, halves to even.
INPUT4F(0, x);
OUTPUT4F(1, y);
layout(push_constant) uniform P { int count, chunk; } p;

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        STORE4(y, i, uintBitsToFloat(nearest_bfloat16(LOAD4(x, i)) & 0xffff0000u));
    }
}
