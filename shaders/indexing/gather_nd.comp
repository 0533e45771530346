#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1 WIDE=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// Entries of `inner` elements (vec4s where WIDE) at tuples of TUPLE_SIZE indices into axes of `size`;
// `in_a_batch` tuples in a row look in the same part of x.
#if WIDE == 1
INPUT4(0, x);
OUTPUT4(2, y);
#define LOAD LOAD4
#define STORE STORE4
#else
INPUT1(0, x);
OUTPUT1(2, y);
#define LOAD LOAD1
#define STORE STORE1
#endif
INPUT1I(1, indices);

layout(constant_id = 10) const int TUPLE_SIZE = 1;

layout(push_constant) uniform P {
    int count, chunk, inner, in_a_batch;
    int from_end;  // 1: indices below 0 count from the end
    int size[8];
} p;

#define STEP(d) \
    if (d < TUPLE_SIZE) { \
        int at = LOAD1(indices, number * TUPLE_SIZE + d); \
        at += at < 0 && p.from_end != 0 ? p.size[d] : 0; \
        row = row * p.size[d] + clamp(at, 0, p.size[d] - 1); \
    }

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int number, place;
        divide_rest(i, p.inner, number, place);
        int row = quotient(number, p.in_a_batch);
        STEP(0)
        STEP(1)
        STEP(2)
        STEP(3)
        STEP(4)
        STEP(5)
        STEP(6)
        STEP(7)
        STORE(y, i, LOAD(x, row * p.inner + place));
    }
}
