#version 450
#pragma vknn variants ACCESS=0,1,2 PACKED=0 QUANT=2
#pragma vknn variants ACCESS=0,1,2 PACKED=1 QUANT=1,2,3,4
#pragma vknn variants ACCESS=0,1,2 PACKED=1 QUANT=2,3,4 FEW=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define ELEM 1
#include "common/tensor.glsl"
#include "matmul/batch.glsl"
#define SETTING_BINDING 3
#include "quantized/sums.glsl"

// c[m, n] = sum over k of (a[m, k] - zero_in) * (b[k, n] - zero_b), requantized; any sizes and strides,
// ROWS x 4 COLS results a lane. PACKED: b holds vec4s of columns without their zero point, in panels of
// b_block vec4s, and a round of the loop takes four k, with QUANT 3 and 4 bytes of one integer; else b
// is as the model has it, and a round takes one k. FEW: weights have 4 or 2 bits, and the bytes of an
// integer hold those of several rounds, from the lowest bits on.

INPUT1I(0, a);
#if PACKED
INPUT4W(1, b);
#else
INPUT1I(1, b);
#endif
OUTPUT1I(2, c);

layout(constant_id = 10) const int ROWS = 4;
layout(constant_id = 11) const int COLS = 2;
// A workgroup is LANES_M x LANES_N tiles, all in local_size_x: CPU drivers run lanes of x side by side.
layout(constant_id = 12) const int LANES_M = 1;
layout(constant_id = 13) const int LANES_N = 1;
#if FEW
layout(constant_id = 14) const int WEIGHT_BITS = 4;
#else
#define WEIGHT_BITS 8
#endif
// Rounds of four k that the bytes of an integer serve, and the bits of those of one in each byte.
#define SHARING (8 / WEIGHT_BITS)
#define BITS_OF_ONE (0x01010101 * ((1 << WEIGHT_BITS) - 1))

layout(push_constant) uniform P {
    int m, n, k;
    int a_row, a_col, b_row, b_col, c_row;
    int b_block, b_panel;
    int zero_b;
    BATCH_MEMBERS
} p;

void main() {
    int lane = int(gl_LocalInvocationID.x);
    int m0 = (int(gl_WorkGroupID.x) * LANES_M + lane % LANES_M) * ROWS;
    int n0 = (int(gl_WorkGroupID.y) * LANES_N + lane / LANES_M) * COLS;
    int n4 = (p.n + 3) / 4;
    if (m0 >= p.m || n0 >= n4) return;
    BATCH_PLACES(int(gl_GlobalInvocationID.z))

    ivec4 sum[ROWS * COLS];
    [[unroll]] for (int i = 0; i < ROWS * COLS; i++) sum[i] = ivec4(0);
    PARTIAL_SUMS(partial, ROWS * COLS)
    ZERO_POINT
    int a_at[ROWS];
    [[unroll]] for (int i = 0; i < ROWS; i++) a_at[i] = a_base + min(m0 + i, p.m - 1) * p.a_row;
    int k_end = p.k, a_col = p.a_col;

#if PACKED
    int b_at[COLS], b_block = p.b_block;
    [[unroll]] for (int j = 0; j < COLS; j++) {
        int col = min(n0 + j, n4 - 1);
        b_at[j] = col / b_block * p.b_panel + col % b_block;
    }
    for (int taken = 0; taken < (k_end + 4 * SHARING - 1) / (4 * SHARING); taken++) {
#if QUANT >= 3 || FEW
        ivec4 held[COLS];
        [[unroll]] for (int j = 0; j < COLS; j++) held[j] = LOAD4(b, b_at[j] + taken * b_block);
#endif
        [[unroll]] for (int part = 0; part < SHARING; part++) {
            int k4 = taken * SHARING + part;
#if QUANT == 3
            int av[ROWS];
            [[unroll]] for (int i = 0; i < ROWS; i++) {
                // Elements behind the row's end are multiplied by zeros.
                ivec4 at = a_at[i] + min(4 * k4 + ivec4(0, 1, 2, 3), ivec4(k_end - 1)) * a_col;
                av[i] = bytes(ivec4(LOAD1(a, at.x), LOAD1(a, at.y), LOAD1(a, at.z), LOAD1(a, at.w)));
                ADD_DATA(partial, i * COLS, av[i])
            }
            [[unroll]] for (int j = 0; j < COLS; j++) {
#if FEW
                ivec4 bv = held[j] >> (part * WEIGHT_BITS) & BITS_OF_ONE;
#else
                ivec4 bv = held[j];
#endif
                [[unroll]] for (int i = 0; i < ROWS; i++) sum[i * COLS + j] += dots(av[i], bv);
            }
#else
#if QUANT == 4 || FEW
#define ROW_OF_B(j) FACTOR(bitfieldExtract(held[j], 8 * q + part * WEIGHT_BITS, WEIGHT_BITS))
#else
#define ROW_OF_B(j) LOAD4(b, b_at[j] + k * b_block)
#endif
            [[unroll]] for (int q = 0; q < 4; q++) {
                int k = min(4 * k4 + q, k_end - 1);
                bool valid = 4 * k4 + q < k_end;
                FACTOR av[ROWS];
                [[unroll]] for (int i = 0; i < ROWS; i++) {
                    int v = LOAD1(a, a_at[i] + k * a_col) - zero;
                    av[i] = FACTOR(valid ? v : 0);
                }
                [[unroll]] for (int j = 0; j < COLS; j++) {
                    FACTOR bv = ROW_OF_B(j);
                    [[unroll]] for (int i = 0; i < ROWS; i++)
                        partial[i * COLS + j] = MULTIPLY_ADD(av[i], bv, partial[i * COLS + j]);
                }
            }
            ADD_PARTIAL_SUMS(sum, partial, ROWS * COLS, k4)
#endif
        }
    }
#else
    int b_at[4 * COLS], b_row = p.b_row, zero_b = p.zero_b;
    [[unroll]] for (int j = 0; j < 4 * COLS; j++)
        b_at[j] = b_base + min(4 * n0 + j, p.n - 1) * p.b_col;
    for (int k = 0; k < k_end; k++) {
        ivec4 av[ROWS];
        [[unroll]] for (int i = 0; i < ROWS; i++) av[i] = ivec4(LOAD1(a, a_at[i] + k * a_col) - zero);
        [[unroll]] for (int j = 0; j < COLS; j++) {
            int row = k * b_row;
            ivec4 bv = ivec4(LOAD1(b, b_at[4 * j] + row), LOAD1(b, b_at[4 * j + 1] + row),
                             LOAD1(b, b_at[4 * j + 2] + row), LOAD1(b, b_at[4 * j + 3] + row)) - zero_b;
            [[unroll]] for (int i = 0; i < ROWS; i++)
                partial[i * COLS + j] = MULTIPLY_ADD(av[i], bv, partial[i * COLS + j]);
        }
        ADD_PARTIAL_SUMS(sum, partial, ROWS * COLS, k)
    }
#endif
    ADD_LAST_SUMS(sum, partial, ROWS * COLS)
    ADD_CENTRED(sum, partial, ROWS, COLS)

    [[unroll]] for (int j = 0; j < COLS; j++) {
        int col = n0 + j;
        Requantizer requantizer_ = requantizer(min(col, n4 - 1), n4, head_);
        [[unroll]] for (int i = 0; i < ROWS; i++) {
            if (m0 + i < p.m && col < n4) {
                ivec4 v = requantized(TOTAL(sum, i * COLS + j), HIGH(i * COLS + j), requantizer_);
                int at = c_base + (m0 + i) * p.c_row + 4 * col;
                STORE1(c, at, v.x);
                if (4 * col + 1 < p.n) STORE1(c, at + 1, v.y);
                if (4 * col + 2 < p.n) STORE1(c, at + 2, v.z);
                if (4 * col + 3 < p.n) STORE1(c, at + 3, v.w);
            }
        }
    }
}
