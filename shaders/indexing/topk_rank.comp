#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0
#pragma vknn variants ACCESS=0,1,2 ELEM=0 HALF=1
#pragma vknn variants ACCESS=0 ELEM=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// The k best of each row, best first, and their indices: an element's place is the number of those
// before it. An item is an element; `count` of them, `inner` apart, make a row.
INPUT1(0, x);
OUTPUT1(1, values);
OUTPUT1I(2, indices);

layout(constant_id = 10) const int LARGEST = 1;
#include "indexing/topk_order.glsl"

layout(push_constant) uniform P { int total, chunk, count, inner, k; } p;

int before(SCALAR other, int place, SCALAR v, int own) {
    return better(other, v) || (place < own && !better(v, other)) ? 1 : 0;
}

void main() {
    FOR_EACH_ITEM(i, p.total, p.chunk) {
        int rest, within, outer, own;
        divide_rest(i, p.inner, rest, within);
        divide_rest(rest, p.count, outer, own);
        int base = outer * p.count * p.inner + within, last = p.count - 1;
        SCALAR v = LOAD1(x, i);
        int place = 0;
        for (int j = 0; j < p.count; j += 4) {
            place += before(LOAD1(x, base + j * p.inner), j, v, own);
            if (j + 1 <= last) place += before(LOAD1(x, base + (j + 1) * p.inner), j + 1, v, own);
            if (j + 2 <= last) place += before(LOAD1(x, base + (j + 2) * p.inner), j + 2, v, own);
            if (j + 3 <= last) place += before(LOAD1(x, base + (j + 3) * p.inner), j + 3, v, own);
        }
        if (place < p.k) {
            int to = (outer * p.k + place) * p.inner + within;
            STORE1(values, to, v);
            STORE1(indices, to, own);
        }
    }
}
