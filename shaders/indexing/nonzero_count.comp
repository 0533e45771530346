#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// Counts of the `per_lane` elements of each lane that are not zero; with BELOW, that are below zero.
INPUT1(0, x);
OUTPUT1I(1, counts);

layout(constant_id = 10) const int BELOW = 0;

layout(push_constant) uniform P { int lanes, chunk, elements, per_lane; } p;

void main() {
    FOR_EACH_ITEM(lane, p.lanes, p.chunk) {
        int found = 0, end = min((lane + 1) * p.per_lane, p.elements);
        for (int i = lane * p.per_lane; i < end; i++) {
            SCALAR v = LOAD1(x, i);
            bool counts_ = BELOW != 0 ? v < SCALAR(0) : v != SCALAR(0);
            found += counts_ ? 1 : 0;
        }
        STORE1(counts, lane, found);
    }
}
