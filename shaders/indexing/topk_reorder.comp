#version 450
#pragma vknn variants ACCESS=0 ELEM=0,1
#pragma vknn variants ACCESS=0 ELEM=0 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// Puts the k elements that were found for each row in the order of their indices. An item is an
// element; `inner` is the distance between those of a row.
INPUT1(0, x);
INPUT1I(1, places);
OUTPUT1(2, values);
OUTPUT1I(3, indices);

layout(push_constant) uniform P { int total, chunk, k, inner; } p;

void main() {
    FOR_EACH_ITEM(i, p.total, p.chunk) {
        int rest, within, outer, own;
        divide_rest(i, p.inner, rest, within);
        divide_rest(rest, p.k, outer, own);
        int base = outer * p.k * p.inner + within;
        int index = LOAD1(places, i), place = 0;
        for (int j = 0; j < p.k; j++) place += LOAD1(places, base + j * p.inner) < index ? 1 : 0;
        STORE1(values, base + place * p.inner, LOAD1(x, i));
        STORE1(indices, base + place * p.inner, index);
    }
}
