#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1 WIDE=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// Rows of `row_size` elements (vec4s where WIDE) put into rows of `stride`, from `offset` on.
#if WIDE
INPUT4(0, x);
OUTPUT4(1, y);
#define LOAD LOAD4
#define STORE STORE4
#else
INPUT1(0, x);
OUTPUT1(1, y);
#define LOAD LOAD1
#define STORE STORE1
#endif
layout(push_constant) uniform P { int count, chunk, row_size, stride, offset; } p;

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int row, place;
        divide_rest(i, p.row_size, row, place);
        STORE(y, row * p.stride + p.offset + place, LOAD(x, i));
    }
}
