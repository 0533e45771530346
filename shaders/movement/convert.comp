#version 450
#pragma vknn variants ACCESS=0,1,2 WIDENS=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#define ELEM 0
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// float32 to float16 in the same layout, or with WIDENS back.
#if WIDENS
INPUT4(0, x);
OUTPUT4S(1, y);
#else
INPUT4S(0, x);
OUTPUT4(1, y);
#endif
layout(push_constant) uniform P { int count, chunk; } p;

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        STORE4(y, i, LOAD4(x, i));
    }
}
