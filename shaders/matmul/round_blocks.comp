#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/extremes.glsl"
#include "common/indexing.glsl"
#include "common/mathf.glsl"
#include "quantized/rounding.glsl"

// y = round(x * scale) / scale, halves away from zero, with scale = 127 / max|x| of each block of a row,
// 1 where all is 0, NaN where one is NaN or infinite.

INPUT1F(0, x);
OUTPUT1F(1, y);

layout(push_constant) uniform P {
    int blocks;
    int chunk;
    int width;
    int size;
    int in_row;  // blocks
} p;

void main() {
    FOR_EACH_ITEM(block, p.blocks, p.chunk) {
        int row, first;
        divide_rest(block, p.in_row, row, first);
        first *= p.size;
        int base = row * p.width + first, count = min(p.size, p.width - first);
        float most = 0.0;
        for (int i = 0; i < count; ++i) most = max(most, abs(without_nan(LOAD1(x, base + i))));
        float scale = most == 0.0 ? 1.0 : isinf(most) ? M_NAN : ieee_quotient(vec4(127.0), vec4(most)).x;
        for (int i = 0; i < count; ++i) {
            precise float scaled = LOAD1(x, base + i) * scale;
            STORE1(y, base + i, clamp(half_away(vec4(scaled)).x, -127.0, 127.0) / scale);
        }
    }
}
