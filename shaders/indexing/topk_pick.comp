#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0
#pragma vknn variants ACCESS=0,1,2 ELEM=0 HALF=1
#pragma vknn variants ACCESS=0 ELEM=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"

// The k best of each row, best first, and their indices: k times the best of those that come after the
// last one that was found. A workgroup of LANES takes a row of `count` elements, `inner` apart.
INPUT1(0, x);
OUTPUT1(1, values);
OUTPUT1I(2, indices);

layout(constant_id = 10) const int LANES = 1;
layout(constant_id = 11) const int LARGEST = 1;
#include "indexing/topk_order.glsl"

layout(push_constant) uniform P { int rows, count, inner, k; } p;

shared SCALAR best_of[LANES];
shared int place_of[LANES];

// True where element a at place i comes before b at place j. A place of -1 holds no element.
bool precedes(SCALAR a, int i, SCALAR b, int j) {
    if (i < 0 || j < 0) return j < 0 && i >= 0;
    return better(a, b) || (i < j && !better(b, a));
}

void main() {
    int lane = int(gl_LocalInvocationID.x);
    int row = linear_group();
    bool inside = row < p.rows;
    row = min(row, p.rows - 1);
    int outer = divide(row, p.inner);
    int within = row - outer * p.inner;
    int base = outer * p.count * p.inner + within, to = outer * p.k * p.inner + within;

    SCALAR last = SCALAR(0);
    int last_at = -1;
    for (int n = 0; n < p.k; n++) {
        SCALAR best = SCALAR(0);
        int at = -1;
        for (int j = lane; j < p.count; j += LANES) {
            SCALAR v = LOAD1(x, base + j * p.inner);
            bool left = last_at < 0 || precedes(last, last_at, v, j);
            if (left && precedes(v, j, best, at)) {
                best = v;
                at = j;
            }
        }
        best_of[lane] = best;
        place_of[lane] = at;
        barrier();
        for (int half_ = LANES / 2; half_ > 0; half_ /= 2) {
            if (lane < half_) {
                int other = lane + half_;
                if (precedes(best_of[other], place_of[other], best_of[lane], place_of[lane])) {
                    best_of[lane] = best_of[other];
                    place_of[lane] = place_of[other];
                }
            }
            barrier();
        }
        last = best_of[0];
        last_at = place_of[0];
        barrier();
        if (inside && lane == 0) {
            STORE1(values, to + n * p.inner, last);
            STORE1(indices, to + n * p.inner, last_at);
        }
    }
}
