#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// QuantizedReduceProd: a lane takes whole rows; each step is a product of 48 bits, rescaled.

INPUT1I(0, x);
OUTPUT1I(1, y);

layout(push_constant) uniform P {
    int rows, width, chunk;
    int factor, right;  // the multiplier of 16 bits, and the shift behind it (1 to 46)
    int zero_in, zero_out, low, high;
} p;

// (a * b * factor + 2 ** (right - 1)) >> right, of which 32 bits are kept.
int scaled(int a, int b) {
    int high_, low_;
    imulExtended(a, b, high_, low_);
    uint carry, bottom;
    umulExtended(uint(low_), uint(p.factor), carry, bottom);
    int top = high_ * p.factor + int(carry);
    uvec2 half_ = p.right > 32 ? uvec2(0u, 1u << uint(p.right - 33)) : uvec2(1u << uint(p.right - 1), 0u);
    uint sum = bottom + half_.x;
    top += int(half_.y) + (sum < bottom ? 1 : 0);
    if (p.right == 32) return top;
    if (p.right > 32) return top >> (p.right - 32);
    return int(uint(top) << uint(32 - p.right) | sum >> uint(p.right));
}

void main() {
    FOR_EACH_ITEM(row, p.rows, p.chunk) {
        int base = row * p.width, product = LOAD1(x, base) - p.zero_in;
        for (int i = 1; i < p.width; ++i) product = scaled(product, LOAD1(x, base + i) - p.zero_in);
        STORE1(y, row, clamp(scaled(product, 1) + p.zero_out, p.low, p.high));
    }
}
