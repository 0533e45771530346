#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// The nearest bfloat16, halves to even.
INPUT4F(0, x);
OUTPUT4F(1, y);
layout(push_constant) uniform P { int count, chunk; } p;

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        uvec4 bits = floatBitsToUint(LOAD4(x, i));
        uvec4 kept = bits + 0x7fffu + ((bits >> 16) & 1u);
        // A NaN must not be carried over into an infinity.
        bvec4 nan = greaterThan(bits & 0x7fffffffu, uvec4(0x7f800000u));
        kept = mix(kept, bits | 0x400000u, nan) & 0xffff0000u;
        STORE4(y, i, uintBitsToFloat(kept));
    }
}
