#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// FixedSoftmax: a lane takes whole rows.

INPUT1I(0, x);
INPUT1I(1, exponentials);
INPUT1I(2, reciprocals);
OUTPUT1I(3, y);

layout(push_constant) uniform P {
    int rows, width, chunk;
} p;

void main() {
    FOR_EACH_ITEM(row, p.rows, p.chunk) {
        int base = row * p.width, largest = LOAD1(x, base), sum = 0;
        for (int i = 1; i < p.width; ++i) largest = max(largest, LOAD1(x, base + i));
        for (int i = 0; i < p.width; ++i)
            sum += LOAD1(exponentials, 65535 - (largest - LOAD1(x, base + i)));
        int zeros = 31 - findMSB(sum);
        uint shifted = ((uint(sum) << uint(zeros - 1)) + (1u << 13)) >> 14;
        int place = clamp(int(shifted) - (1 << 15) - (1 << 16), -32768, 32767);
        int index = 256 + (place >> 7);
        int first = LOAD1(reciprocals, index), slope = LOAD1(reciprocals, index + 1) - first;
        int inverse = first + ((slope * (place & 0x7f) + 64) >> 7);
        int right = 31 - zeros;
        for (int i = 0; i < p.width; ++i) {
            int term = LOAD1(exponentials, 65535 - (largest - LOAD1(x, base + i)));
            int v = (term * inverse + (1 << (right - 1))) >> right;
            STORE1(y, base + i, clamp(v, 0, 32767));
        }
    }
}
