#version 450
#pragma vknn variants ACCESS=0,1,2 ZEROS=0,1
#pragma vknn variants ACCESS=0,1,2 ZEROS=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common/tensor.glsl"

// c[m, n] = sum over k of a[m, k] * (code[n, k] - zero[n, block]) * scale[n, block] + bias[n], for weights of
// BITS bits in blocks along k. Bound by reading codes where a has few rows. A lane sums one column of
// ROWS rows over every PARTS-th group of codes, which are added up through shared memory.
//
// codes: [group of k][n] vec4s of words, each with 32 / BITS codes of a column, the first in the lowest
// bits. settings: [block][n] scales, with ZEROS pairs of a scale and a zero point; then the biases.

INPUT4F(0, a);
INPUT4I(1, codes);
INPUT1S(2, settings);
OUTPUT1F(3, c);

layout(constant_id = 10) const int ROWS = 1;
layout(constant_id = 11) const int BITS = 4;
layout(constant_id = 12) const int BLOCK = 32;
layout(constant_id = 13) const int LANES = 1;  // local_size_x
layout(constant_id = 14) const int PARTS = 1;  // local_size_y
// 1: k is a whole number of groups.
layout(constant_id = 15) const int WHOLE = 0;
// Zero point without ZEROS.
layout(constant_id = 16) const int MIDDLE = 8;

const int IN_WORD = 32 / BITS;
const int MASK = (1 << BITS) - 1;
// Words that share a scale, of those of a group.
const int SHARING = BLOCK >= 4 * IN_WORD ? 4 : BLOCK / IN_WORD;

layout(push_constant) uniform P {
    int m;
    int n;
    int k4;
    int groups;  // of k
    int blocks;
    int bias;    // place of the biases in settings, -1: none
} p;

shared float partial[PARTS > 1 ? LANES * PARTS * ROWS : 1];

void main() {
    int lane = int(gl_LocalInvocationID.x), part = int(gl_LocalInvocationID.y);
    int column = int(gl_WorkGroupID.x) * LANES + lane, m0 = int(gl_WorkGroupID.y) * ROWS;
    int own = min(column, p.n - 1);

    int a_at[ROWS];
    float sums[ROWS];
    [[unroll]] for (int r = 0; r < ROWS; r++) {
        a_at[r] = min(m0 + r, p.m - 1) * p.k4;
        sums[r] = 0.0;
    }
    for (int group = part; group < p.groups; group += PARTS) {
        ivec4 words = LOAD4(codes, group * p.n + own);
        float scale = 0.0, zero = float(MIDDLE);
        [[unroll]] for (int w = 0; w < 4; w++) {
            int first = (4 * group + w) * IN_WORD;
            if (w % SHARING == 0) {
                int at = min(first / BLOCK, p.blocks - 1) * p.n + own;
#if ZEROS
                scale = LOAD1(settings, 2 * at);
                zero = LOAD1(settings, 2 * at + 1);
#else
                scale = LOAD1(settings, at);
#endif
            }
            [[unroll]] for (int q = 0; q < IN_WORD / 4; q++) {
                ivec4 code = (ivec4(words[w]) >> (4 * q * BITS + BITS * ivec4(0, 1, 2, 3))) & MASK;
                vec4 weight = (vec4(code) - zero) * scale;
                int k = first / 4 + q;
                // What lies behind the end is not multiplied: a zero times an infinity is a NaN.
                if (WHOLE != 0 || k < p.k4) {
                    [[unroll]] for (int r = 0; r < ROWS; r++) {
                        vec4 v = LOAD4(a, a_at[r] + k);
                        [[unroll]] for (int i = 0; i < 4; i++) sums[r] = fma(v[i], weight[i], sums[r]);
                    }
                }
            }
        }
    }
    if (PARTS > 1) {
        [[unroll]] for (int r = 0; r < ROWS; r++) partial[(part * ROWS + r) * LANES + lane] = sums[r];
        barrier();
        if (part > 0) return;
        for (int other = 1; other < PARTS; other++) {
            [[unroll]] for (int r = 0; r < ROWS; r++) sums[r] += partial[(other * ROWS + r) * LANES + lane];
        }
    }
    if (column >= p.n) return;
    float shift = p.bias >= 0 ? LOAD1(settings, p.bias + column) : 0.0;
    [[unroll]] for (int r = 0; r < ROWS; r++) {
        if (m0 + r < p.m) STORE1(c, (m0 + r) * p.n + column, sums[r] + shift);
    }
}
