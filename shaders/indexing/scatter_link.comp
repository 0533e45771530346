#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#define ELEM 1
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// Lists of the updates of each row. A row is a tuple of TUPLE_SIZE indices into axes of `size`.
//
// links: for each row the head of a list of updates (-1: none), from `rows` on for each update its row
// (-1: outside), then for each the next one of its list. LAST 1: no lists, but the last update of a row.
INPUT1I(0, indices);
INOUT1I(1, links);

layout(constant_id = 10) const int TUPLE_SIZE = 1;
layout(constant_id = 11) const int LAST = 0;

layout(push_constant) uniform P {
    int count, chunk;
    int first;  // of the updates in this pass
    int rows;
    int from_end;  // 1: indices below 0 count from the end
    int size[8];
} p;

#define STEP(d) \
    if (d < TUPLE_SIZE) { \
        int at = LOAD1(indices, (p.first + i) * TUPLE_SIZE + d); \
        at += at < 0 && p.from_end != 0 ? p.size[d] : 0; \
        outside = outside || at < 0 || at >= p.size[d]; \
        row = row * p.size[d] + at; \
    }

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        bool outside = false;
        int row = 0;
        STEP(0)
        STEP(1)
        STEP(2)
        STEP(3)
        STEP(4)
        STEP(5)
        STEP(6)
        STEP(7)
        links[p.rows + i] = outside ? -1 : row;
        if (!outside) {
            if (LAST != 0) atomicMax(links[row], i);
            else links[p.rows + p.count + i] = atomicExchange(links[row], i);
        }
    }
}
