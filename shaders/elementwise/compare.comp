#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1 WIDE=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// y = 1 where the comparison of x and w holds, else 0, with broadcasting, in either layout.
#if WIDE
INPUT4(0, x);
INPUT4(1, w);
#else
INPUT1(0, x);
INPUT1(1, w);
#endif
OUTPUT4I(2, y);

#define EQUAL 0
#define NOT_EQUAL 1
#define LESS 2
#define LESS_OR_EQUAL 3
#define GREATER 4
#define GREATER_OR_EQUAL 5
#define AND 6
#define OR 7
layout(constant_id = 10) const int KIND = 0;
layout(constant_id = 14) const int PADDING_LANES = 0;  // lanes behind the last channel need zeroing

layout(push_constant) uniform P {
    int count, chunk, elements, spatial, blocks, channels;
    int size[6], stride_x[6], stride_w[6];
} p;

#include "common/broadcast.glsl"

ivec4 compared(VEC4 v, VEC4 u) {
    if (KIND == EQUAL) return ivec4(equal(v, u));
    if (KIND == NOT_EQUAL) return ivec4(1) - ivec4(equal(v, u));
    if (KIND == LESS) return ivec4(lessThan(v, u));
    if (KIND == LESS_OR_EQUAL) return ivec4(lessThanEqual(v, u));
    if (KIND == GREATER) return ivec4(greaterThan(v, u));
    if (KIND == GREATER_OR_EQUAL) return ivec4(greaterThanEqual(v, u));
    if (KIND == AND) return ivec4(v) & ivec4(u);
    return ivec4(v) | ivec4(u);
}

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        VEC4 v, u;
        load(i, v, u);
        ivec4 truth = compared(v, u);
        if (PADDING_LANES != 0) {
            int row = quotient(i, p.spatial);
            ivec4 channel = (row - quotient(row, p.blocks) * p.blocks) * 4 + ivec4(0, 1, 2, 3);
            truth *= ivec4(lessThan(channel, ivec4(p.channels)));
        }
        STORE4(y, i, truth);
    }
}
