#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1 FLOATS=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 FLOATS=0,1 HALF=1
#pragma vknn variants ACCESS=0,1,2 ELEM=1 FLOATS=1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// The places of the elements that are not zero: a row of RANK numbers each. `counts`: how many each lane
// has found (indexing/nonzero_count.comp).
INPUT1(0, x);
INPUT1I(1, counts);
#if FLOATS == 1
OUTPUT1F(2, y);
#define PLACE float
#else
OUTPUT1I(2, y);
#define PLACE int
#endif
INOUT1I(3, count);

layout(constant_id = 10) const int RANK = 1;

layout(push_constant) uniform P { int lanes, chunk, elements, per_lane, size[8]; } p;

// The place along axis d, counted from the end of the eight.
#define AXIS(d) \
    if (d >= 8 - RANK) { \
        int c = rest; \
        if (d > 8 - RANK) divide_rest(c, p.size[d], rest, c); \
        STORE1(y, to * RANK + d - 8 + RANK, PLACE(c)); \
    }

void main() {
    FOR_EACH_ITEM(lane, p.lanes, p.chunk) {
        int to = 0, end = min((lane + 1) * p.per_lane, p.elements);
        for (int i = 0; i < lane; i++) to += LOAD1(counts, i);
        for (int i = lane * p.per_lane; i < end; i++) {
            if (LOAD1(x, i) != SCALAR(0)) {
                int rest = i;
                AXIS(7)
                AXIS(6)
                AXIS(5)
                AXIS(4)
                AXIS(3)
                AXIS(2)
                AXIS(1)
                AXIS(0)
                to++;
            }
        }
        if (lane == p.lanes - 1) STORE1(count, 0, to);
    }
}
