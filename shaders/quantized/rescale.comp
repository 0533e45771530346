#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#define ELEM 1
#include "common/tensor.glsl"
#include "common/indexing.glsl"
#include "quantized/fixed_point.glsl"

// y = clip(((x - zero_in) << left) * (q, shift) + zero_out, low, high). An item is a vec4.

INPUT4I(0, x);
OUTPUT4I(1, y);

layout(constant_id = 10) const int PADDING_LANES = 0;  // C4: there are lanes behind the last channel

layout(push_constant) uniform P {
    int count, chunk;
    int zero_in, left, q, shift, zero_out, low, high;
    int spatial, blocks, channels;
} p;

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        ivec4 v = (LOAD4(x, i) - p.zero_in) << p.left;
        v = clamp(fixed_multiply(v, ivec4(p.q), ivec4(p.shift)) + p.zero_out, p.low, p.high);
        if (PADDING_LANES != 0) {
            int row = quotient(i, p.spatial);
            v = zero_padding_lanes(v, row - quotient(row, p.blocks) * p.blocks, p.channels);
        }
        STORE4(y, i, v);
    }
}
