#version 450
#pragma vknn variants ACCESS=0,1,2 ZEROS=0,1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// b[k, n] = (code[n, k] - zero[n, block]) * scale[n, block]: the weights of blocks_product.comp, from the same
// buffers, as floats. An item is a group of codes of a column.

INPUT4I(0, codes);
INPUT1S(1, settings);
OUTPUT1F(2, b);

layout(constant_id = 10) const int BITS = 4;
layout(constant_id = 11) const int BLOCK = 32;
// Zero point without ZEROS.
layout(constant_id = 12) const int MIDDLE = 8;

const int IN_WORD = 32 / BITS;
const int MASK = (1 << BITS) - 1;

layout(push_constant) uniform P {
    int count, chunk;
    int n;
    int k;
    int blocks;
} p;

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int group, column;
        divide_rest(i, p.n, group, column);
        ivec4 words = LOAD4(codes, i);
        [[unroll]] for (int w = 0; w < 4; w++) {
            int first = (4 * group + w) * IN_WORD;
            int at = min(first / BLOCK, p.blocks - 1) * p.n + column;
#if ZEROS
            float scale = LOAD1(settings, 2 * at), zero = LOAD1(settings, 2 * at + 1);
#else
            float scale = LOAD1(settings, at), zero = float(MIDDLE);
#endif
            [[unroll]] for (int q = 0; q < IN_WORD; q++) {
                float weight = (float(words[w] >> (q * BITS) & MASK) - zero) * scale;
                if (first + q < p.k) STORE1(b, (first + q) * p.n + column, weight);
            }
        }
    }
}
