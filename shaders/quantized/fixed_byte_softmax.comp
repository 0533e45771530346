#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"
#include "quantized/fixed_byte_softmax.glsl"

// FixedByteSoftmax: a lane takes whole rows.

INPUT1I(0, x);
INPUT1I(1, table);
OUTPUT1I(2, y);

layout(push_constant) uniform P {
    int rows, width, chunk;
    int bits, low, high;
} p;

void main() {
    FOR_EACH_ITEM(row, p.rows, p.chunk) {
        int base = row * p.width, largest = LOAD1(x, base), sum = 0;
        for (int i = 1; i < p.width; ++i) largest = max(largest, LOAD1(x, base + i));
        for (int i = 0; i < p.width; ++i)
            sum += summand_of(LOAD1(table, 255 - (largest - LOAD1(x, base + i))));
        Inverse inverse = inverse_of(sum, p.bits);
        for (int i = 0; i < p.width; ++i) {
            int term = LOAD1(table, 255 - (largest - LOAD1(x, base + i)));
            STORE1(y, base + i, clamp(share_of(term, inverse) + p.low, p.low, p.high));
        }
    }
}
