#version 450
#pragma vknn variants ACCESS=0 ELEM=0,1 FIRST=0,1
#pragma vknn variants ACCESS=0 ELEM=0 FIRST=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// A pass of a merge sort of rows, best first: FIRST sorts runs of `run` elements each by counting, the
// others merge pairs of runs. An item is an element; it looks for its place among those of the other run.
// `count` elements, `inner` apart, make a row, of which the k best are kept.
INPUT1(0, x);
#if FIRST == 1
OUTPUT1(1, values);
OUTPUT1I(2, indices);
#else
INPUT1I(1, numbers);
OUTPUT1(2, values);
OUTPUT1I(3, indices);
#endif

layout(constant_id = 10) const int LARGEST = 1;
#include "indexing/topk_order.glsl"

layout(push_constant) uniform P { int total, chunk, count, inner, k, run; } p;

void main() {
    FOR_EACH_ITEM(i, p.total, p.chunk) {
        int rest, within, outer, own;
        divide_rest(i, p.inner, rest, within);
        divide_rest(rest, p.count, outer, own);
        int base = outer * p.count * p.inner + within;
        SCALAR v = LOAD1(x, i);
#if FIRST == 1
        int number = own, start = own - own % p.run, end = min(start + p.run, p.count);
        int place = start;
        for (int j = start; j < end; j++) {
            SCALAR other = LOAD1(x, base + j * p.inner);
            place += better(other, v) || (j < own && !better(v, other)) ? 1 : 0;
        }
#else
        int number = LOAD1(numbers, i), start = own - own % (2 * p.run);
        int middle = min(start + p.run, p.count), end = min(middle + p.run, p.count);
        bool left = own < middle;
        // Equal elements of the left run come first.
        int low = left ? middle : start, high = left ? end : middle;
        while (low < high) {
            int at = (low + high) / 2;
            SCALAR other = LOAD1(x, base + at * p.inner);
            bool before = left ? better(other, v) : !better(v, other);
            low = before ? at + 1 : low;
            high = before ? high : at;
        }
        int place = own + low - middle;  // in either run
#endif
        if (place < p.k) {
            int to = (outer * p.k + place) * p.inner + within;
            STORE1(values, to, v);
            STORE1(indices, to, number);
        }
    }
}
