#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#define ELEM 1
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// y = clip(round(x * scale + bias) + zero_out, low, high), halves away from zero, the product and the
// sum rounded one by one. An item is a vec4.

INPUT4I(0, x);
OUTPUT4I(1, y);

layout(constant_id = 10) const int PADDING_LANES = 0;  // C4: there are lanes behind the last channel

layout(push_constant) uniform P {
    int count, chunk;
    float scale, bias;
    int zero_out, low, high;
    int spatial, blocks, channels;
} p;

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        precise vec4 product = vec4(LOAD4(x, i)) * p.scale;
        precise vec4 moved = product + p.bias;
        vec4 whole = trunc(moved);
        vec4 rest = abs(moved - whole);
        whole += vec4(greaterThanEqual(rest, vec4(0.5))) * sign(moved);
        ivec4 v = ivec4(clamp(whole, vec4(-1073741824.0), vec4(1073741824.0)));
        v = clamp(v + p.zero_out, p.low, p.high);
        if (PADDING_LANES != 0) {
            int row = quotient(i, p.spatial);
            v = zero_padding_lanes(v, row - quotient(row, p.blocks) * p.blocks, p.channels);
        }
        STORE4(y, i, v);
    }
}
