#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=1 WIDE=0,1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"
#include "elementwise/integers.glsl"

// y = the bits of x and w combined, or those of x moved by w places, with broadcasting, in either layout.
#if WIDE
INPUT4(0, x);
INPUT4(1, w);
#else
INPUT1(0, x);
INPUT1(1, w);
#endif
OUTPUT4(2, y);

#define AND 0
#define OR 1
#define XOR 2
#define SHIFT_LEFT 3
#define SHIFT_RIGHT 4
layout(constant_id = 10) const int KIND = 0;
layout(constant_id = 11) const int WIDTH = 32;         // bits of an element
layout(constant_id = 12) const int WRAP = 0;           // wrap of integers.glsl
layout(constant_id = 14) const int PADDING_LANES = 0;  // lanes behind the last channel need zeroing

layout(push_constant) uniform P {
    int count, chunk, elements, spatial, blocks, channels;
    int size[6], stride_x[6], stride_w[6];
} p;

#include "common/broadcast.glsl"

// Moved by the width or more, or by less than nothing, 0 is left, or downwards the sign of each.
ivec4 moved(ivec4 v, ivec4 by) {
    ivec4 inside = -ivec4(greaterThanEqual(by, ivec4(0))) & -ivec4(lessThan(by, ivec4(WIDTH)));
    ivec4 places = by & inside;
    if (KIND == SHIFT_LEFT) return (v << places) & inside;
    return v >> (places | (ivec4(31) & ~inside));
}

ivec4 combined(ivec4 v, ivec4 u) {
    if (KIND == AND) return v & u;
    if (KIND == OR) return v | u;
    if (KIND == XOR) return v ^ u;
    return moved(v, u);
}

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        ivec4 v, u;
        load(i, v, u);
        v = wrap(combined(v, u), WRAP);
        if (PADDING_LANES != 0) {
            int row = quotient(i, p.spatial);
            v = zero_padding_lanes(v, row - quotient(row, p.blocks) * p.blocks, p.channels);
        }
        STORE4(y, i, v);
    }
}
