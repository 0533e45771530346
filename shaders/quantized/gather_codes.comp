#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#define ELEM 1
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// y[number, place] = code `place` of row indices[number], less half of all codes. A row is of whole words,
// each with 32 / BITS codes, the first in the lowest bits.

INPUT1I(0, codes);
INPUT1I(1, indices);
OUTPUT1I(2, y);

layout(constant_id = 10) const int BITS = 4;

const int IN_WORD = 32 / BITS;

layout(push_constant) uniform P {
    int count, chunk;
    int width;  // codes of a row
    int words;  // of a row
    int rows;
} p;

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int number, place;
        divide_rest(i, p.width, number, place);
        int row = clamp(LOAD1(indices, number), 0, p.rows - 1);
        int word = LOAD1(codes, row * p.words + place / IN_WORD);
        int code = word >> (place % IN_WORD * BITS) & ((1 << BITS) - 1);
        STORE1(y, i, code - (1 << (BITS - 1)));
    }
}
