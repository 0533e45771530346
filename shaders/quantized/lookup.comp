#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 HALF=1
#pragma vknn variants ACCESS=0,1,2 ELEM=1 BYTES=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// y = table[x - first], x held within the table. An item is a vec4. BYTES: x and y are in C4B.

#ifndef BYTES
#define BYTES 0
#endif
#if BYTES
INPUT1I(0, x);
#define VALUES(i) bytes_of(LOAD1(x, i), BYTES_UNSIGNED)
#define STORE(i, v) STORE1(y, i, word_of(v))
#else
INPUT4I(0, x);
#define VALUES(i) LOAD4(x, i)
#define STORE(i, v) STORE4(y, i, v)
#endif
#if ELEM == 0
INPUT1S(1, table);
#else
INPUT1I(1, table);
#endif
#if BYTES
OUTPUT1I(2, y);
#else
OUTPUT4(2, y);
#endif

layout(constant_id = 10) const int PADDING_LANES = 0;  // C4: there are lanes behind the last channel

layout(push_constant) uniform P {
    int count, chunk, first, last;
    int spatial, blocks, channels;
} p;

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        ivec4 at = clamp(VALUES(i) - p.first, ivec4(0), ivec4(p.last));
        VEC4 v = VEC4(LOAD1(table, at.x), LOAD1(table, at.y), LOAD1(table, at.z), LOAD1(table, at.w));
        if (PADDING_LANES != 0) {
            int row = quotient(i, p.spatial);
            v = zero_padding_lanes(v, row - quotient(row, p.blocks) * p.blocks, p.channels);
        }
        STORE(i, v);
    }
}
