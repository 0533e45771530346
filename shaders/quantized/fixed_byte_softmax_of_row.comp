#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "quantized/fixed_byte_softmax.glsl"

// FixedByteSoftmax: the lanes of a workgroup share a row.

INPUT1I(0, x);
INPUT1I(1, table);
OUTPUT1I(2, y);

layout(constant_id = 11) const int LANES = 64;

layout(push_constant) uniform P {
    int rows, width;
    int bits, low, high;
} p;

shared int part[LANES];

// The largest of the lanes' numbers, or their sum.
int of_all(int own, bool largest) {
    int lane = int(gl_LocalInvocationID.x);
    part[lane] = own;
    barrier();
    for (int half_ = LANES / 2; half_ > 0; half_ /= 2) {
        if (lane < half_) {
            int a = part[lane], b = part[lane + half_];
            part[lane] = largest ? max(a, b) : a + b;
        }
        barrier();
    }
    int found = part[0];
    barrier();
    return found;
}

void main() {
    int row = linear_group(), lane = int(gl_LocalInvocationID.x);
    bool inside = row < p.rows;
    int base = min(row, p.rows - 1) * p.width, largest = LOAD1(x, base), sum = 0;
    for (int i = lane; i < p.width; i += LANES) largest = max(largest, LOAD1(x, base + i));
    largest = of_all(largest, true);
    for (int i = lane; i < p.width; i += LANES)
        sum += summand_of(LOAD1(table, 255 - (largest - LOAD1(x, base + i))));
    sum = of_all(sum, false);
    if (!inside) return;
    Inverse inverse = inverse_of(sum, p.bits);
    for (int i = lane; i < p.width; i += LANES) {
        int term = LOAD1(table, 255 - (largest - LOAD1(x, base + i)));
        STORE1(y, base + i, clamp(share_of(term, inverse) + p.low, p.low, p.high));
    }
}
