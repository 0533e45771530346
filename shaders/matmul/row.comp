#version 450
#pragma vknn variants ACCESS=0,1,2 SEPARATE_BIAS=0,1
#pragma vknn variants ACCESS=0,1,2 SEPARATE_BIAS=0,1 HALF=1,2
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common/tensor.glsl"
#include "matmul/storage.glsl"

// One row times a matrix: c[n] = sum over k of a[k] * b[k, n] + bias[n], for each batch entry. Bound by
// reading b. A lane sums 4 COLS columns over every local_size_y-th STEPS vec4s of k; the lanes of a
// column are added up through shared memory. b holds vec4s along n in panels of b_block vec4s.

INPUT4A(0, a);
INPUT4F(1, b);
OUTPUT4C(2, c);
#if SEPARATE_BIAS == 1
INPUT4F(3, bias);
#define EPILOGUE_OPERANDS 0
#endif
#define EPILOGUE_BINDING 3
#include "common/epilogue.glsl"

layout(constant_id = 10) const int COLS = 1;
layout(constant_id = 11) const int LANES_X = 1;  // local_size_x
layout(constant_id = 12) const int LANES_Y = 1;  // local_size_y
// C4: how many lanes of the last vec4 are channels, the others being kept zero; 0: all are written.
layout(constant_id = 13) const int LAST = 0;

// vec4s of k that a lane reads beside each other before it multiplies them.
layout(constant_id = 14) const int STEPS = 1;
// b_row where b is packed, so that a load's distance to the first of a round is in its instruction; else 0.
layout(constant_id = 15) const int B_ROW = 0;

layout(push_constant) uniform P {
    int n4;
    int k;
    int a_step;  // from one batch entry to the next
    int b_step;
    int b_row;
    int b_block;
    int b_panel;
    int bias;
} p;

// acc += the products of COUNT vec4s of k: `a_place` is the first in a, and columns[j] + step its row in b.
#define ADD_PRODUCTS(COUNT, a_place, columns, step) \
    vec4 av[COUNT]; \
    vec4 bv[COUNT * 4 * COLS]; \
    [[unroll]] for (int s = 0; s < COUNT; s++) { \
        av[s] = LOAD4(a, a_place + s); \
        [[unroll]] for (int q = 0; q < 4; q++) { \
            [[unroll]] for (int j = 0; j < COLS; j++) \
                bv[(s * 4 + q) * COLS + j] = LOAD4(b, columns[j] + step + (4 * s + q) * b_row); \
        } \
    } \
    [[unroll]] for (int s = 0; s < COUNT; s++) { \
        [[unroll]] for (int q = 0; q < 4; q++) { \
            [[unroll]] for (int j = 0; j < COLS; j++) \
                acc[j] = fma(vec4(av[s][q]), bv[(s * 4 + q) * COLS + j], acc[j]); \
        } \
    }

shared vec4 partial[LANES_Y > 1 ? LANES_X * LANES_Y * COLS : 1];

void main() {
    int lane = int(gl_LocalInvocationID.x);
    int part = int(gl_LocalInvocationID.y);
    int z = int(gl_WorkGroupID.z);
    int first = int(gl_WorkGroupID.x) * LANES_X * COLS + lane;
    int whole = p.k / 4;
    int b_row = B_ROW != 0 ? B_ROW : p.b_row;
    int a_at = z * p.a_step;

    int b_at[COLS];
    vec4 acc[COLS];
    [[unroll]] for (int j = 0; j < COLS; j++) {
        int col = min(first + j * LANES_X, p.n4 - 1);
        b_at[j] = z * p.b_step + col / p.b_block * p.b_panel + col % p.b_block;
        acc[j] = vec4(0.0);
    }
    // Rounds of all lanes: what they count is the same for all of them, and costs no lane anything.
    int round = 0;
    if (STEPS > 1) {
        int own = part * STEPS;
        int a_own = a_at + own;
        int b_own[COLS];
        [[unroll]] for (int j = 0; j < COLS; j++) b_own[j] = b_at[j] + 4 * own * b_row;
        for (; round + STEPS * LANES_Y <= whole; round += STEPS * LANES_Y) {
            ADD_PRODUCTS(STEPS, a_own + round, b_own, 4 * round * b_row)
        }
    }
    int k = round + part;
    for (; k < whole; k += LANES_Y) { ADD_PRODUCTS(1, a_at + k, b_at, 4 * k * b_row) }
    if (k == whole && 4 * whole < p.k) {
        // What lies behind the end of the row may be a NaN, and a zero times an infinity is one.
        vec4 rest = LOAD4(a, a_at + k);
        for (int q = 0; q < p.k - 4 * whole; q++) {
            [[unroll]] for (int j = 0; j < COLS; j++)
                acc[j] = fma(vec4(rest[q]), LOAD4(b, b_at[j] + (4 * k + q) * b_row), acc[j]);
        }
    }
    if (LANES_Y > 1) {
        [[unroll]] for (int j = 0; j < COLS; j++)
            partial[(part * COLS + j) * LANES_X + lane] = acc[j];
        barrier();
        if (part > 0) return;
        for (int other = 1; other < LANES_Y; other++) {
            [[unroll]] for (int j = 0; j < COLS; j++)
                acc[j] += partial[(other * COLS + j) * LANES_X + lane];
        }
    }
    [[unroll]] for (int j = 0; j < COLS; j++) {
        int col = first + j * LANES_X;
        vec4 shift = vec4(0.0);
#if SEPARATE_BIAS == 1
        shift = LOAD4(bias, min(col, p.n4 - 1));
#else
        if (p.bias >= 0) shift = LOAD4(b, z * p.b_step + p.bias + min(col, p.n4 - 1));
#endif
        int at = z * p.n4 + col;
        if (col < p.n4) {
            vec4 v = epilogue4(acc[j] + shift, at, col);
            if (LAST != 0) v = zero_padding_lanes(v, col, 4 * p.n4 - 4 + LAST);
            STORE4(c, at, v);
        }
    }
}
