#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#define ELEM 1
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// Numbers the elements whose mark is below zero, in order: into the second half of the marks. `counts`:
// how many each lane has (indexing/nonzero_count.comp).
INPUT1I(0, counts);
INOUT1I(1, marks);
INOUT1I(2, count);

layout(push_constant) uniform P { int lanes, chunk, elements, per_lane; } p;

void main() {
    FOR_EACH_ITEM(lane, p.lanes, p.chunk) {
        int to = 0, end = min((lane + 1) * p.per_lane, p.elements);
        for (int i = 0; i < lane; i++) to += LOAD1(counts, i);
        for (int i = lane * p.per_lane; i < end; i++) {
            if (marks[i] < 0) {
                marks[p.elements + i] = to;
                to++;
            }
        }
        if (lane == p.lanes - 1) STORE1(count, 0, to);
    }
}
