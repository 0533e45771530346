#version 450
#pragma vknn variants ACCESS=0,1,2 TO_BYTES=0,1
#extension GL_GOOGLE_include_directive : require
#define ELEM 1
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// C4 to C4B (TO_BYTES), or back.
#if TO_BYTES
INPUT4I(0, x);
OUTPUT1I(1, y);
#else
INPUT1I(0, x);
OUTPUT4I(1, y);
#endif
layout(push_constant) uniform P { int count, chunk; } p;

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
#if TO_BYTES
        STORE1(y, i, word_of(LOAD4(x, i)));
#else
        STORE4(y, i, bytes_of(LOAD1(x, i), BYTES_UNSIGNED));
#endif
    }
}
