#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// The different elements in order, and which of them each element is. `marks`: the first equal element
// (below zero: it is the first itself), then the number of each that is the first.
INPUT1(0, x);
INPUT1I(1, marks);
OUTPUT1(2, values);
OUTPUT1I(3, which);

layout(push_constant) uniform P { int count, chunk; } p;

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int twin = LOAD1(marks, i);
        int number = LOAD1(marks, p.count + (twin < 0 ? i : twin));
        STORE1(which, i, number);
        if (twin < 0) STORE1(values, number, LOAD1(x, i));
    }
}
