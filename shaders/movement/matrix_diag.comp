#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// Square matrices of zeros with rows of `width` on a diagonal, which begins at (down, right).
INPUT1(0, x);
OUTPUT4(1, y);
layout(push_constant) uniform P { int count, chunk, elements, size, width, down, right; } p;

SCALAR element(int e) {
    int row, column, matrix, rest;
    divide_rest(min(e, p.elements - 1), p.size, rest, column);
    divide_rest(rest, p.size, matrix, row);
    int place = row - p.down;
    bool here = place >= 0 && place < p.width && column - p.right == place;
    SCALAR v = LOAD1(x, here ? matrix * p.width + place : 0);
    return here ? v : SCALAR(0);
}

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int e = i * 4;
        STORE4(y, i, VEC4(element(e), element(e + 1), element(e + 2), element(e + 3)));
    }
}
