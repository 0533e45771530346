#version 450
#pragma vknn variants ACCESS=0,1,2 B_ALONG_K=0,1 SEPARATE_BIAS=0,1
#pragma vknn variants ACCESS=0,1,2 B_ALONG_K=0,1 SEPARATE_BIAS=0,1 HALF=1,2,3
#pragma vknn variants ACCESS=0,1,2 B_ALONG_K=0,1 SEPARATE_BIAS=0,1 HALF=1 HALF_SUMS=1
#pragma vknn variants ACCESS=0,1,2 B_ALONG_K=0,1 SEPARATE_BIAS=1 HALF=2 HALF_SUMS=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common/tensor.glsl"
#include "matmul/storage.glsl"
#include "matmul/batch.glsl"
#include "matmul/half_sums.glsl"

// c[m, n] = alpha * sum over k of a[m, k] * b[k, n] + bias[n], a tile of ROWS x 4 COLS results a lane.
// a holds vec4s along k. b holds vec4s along n (B_ALONG_K 0), its columns in panels of b_block vec4s,
// or along k (B_ALONG_K 1: b is stored transposed).

INPUT4A(0, a);
INPUT4F(1, b);
OUTPUT4C(2, c);
#if SEPARATE_BIAS == 1
INPUT4F(3, bias);
#define EPILOGUE_OPERANDS 0
#endif
#define EPILOGUE_BINDING 3
#include "common/epilogue.glsl"

layout(constant_id = 10) const int ROWS = 4;
layout(constant_id = 11) const int COLS = 2;
// A workgroup is LANES_M x LANES_N tiles, all in local_size_x: CPU drivers run lanes of x side by side.
layout(constant_id = 12) const int LANES_M = 1;
layout(constant_id = 13) const int LANES_N = 1;
// 1: rows of a end in zeros behind the last row of b, which is no multiple of 4 (B_ALONG_K 0).
layout(constant_id = 14) const int RAGGED = 0;

layout(push_constant) uniform P {
    int m;        // rows of c
    int n4;       // vec4s in a row of c
    int k4;       // vec4s in a row of a
    int b_count;  // valid rows of b: its k (B_ALONG_K 0) or its n (1)
    int a_row;    // from one row of a to the next
    int b_row;    // from one row of b to the next
    int b_block;
    int b_panel;  // from one panel of b to the next
    int c_row;
    int bias;     // place of the bias behind the weights of a batch entry in b; -1: none there
    float alpha;
    BATCH_MEMBERS
} p;

void main() {
    int lane = int(gl_LocalInvocationID.x);
    int m0 = (int(gl_WorkGroupID.x) * LANES_M + lane % LANES_M) * ROWS;
    int n0 = (int(gl_WorkGroupID.y) * LANES_N + lane / LANES_M) * COLS;
    if (m0 >= p.m || n0 >= p.n4) return;
    BATCH_PLACES(int(gl_GlobalInvocationID.z))

    vec4 acc[ROWS * COLS];
    int a_at[ROWS];
    [[unroll]] for (int i = 0; i < ROWS; i++) a_at[i] = a_base + min(m0 + i, p.m - 1) * p.a_row;
    [[unroll]] for (int i = 0; i < ROWS * COLS; i++) acc[i] = vec4(0.0);
    PARTIAL_SUMS(partial, ROWS * COLS)

#if B_ALONG_K == 0
    int b_at[COLS];
    [[unroll]] for (int j = 0; j < COLS; j++) {
        int col = min(n0 + j, p.n4 - 1);
        b_at[j] = b_base + col / p.b_block * p.b_panel + col % p.b_block;
    }
#else
    int b_at[4 * COLS];
    [[unroll]] for (int j = 0; j < 4 * COLS; j++)
        b_at[j] = b_base + min(4 * n0 + j, p.b_count - 1) * p.b_row;
#endif

    for (int k = 0; k < p.k4; k++) {
        FACTOR av[ROWS];
        [[unroll]] for (int i = 0; i < ROWS; i++) av[i] = AS_FACTOR(LOAD4(a, a_at[i] + k));
#if B_ALONG_K == 0
        [[unroll]] for (int q = 0; q < 4; q++) {
            // Rows behind the last are 0 like those elements of a: an infinity or NaN times 0 is NaN.
            int row = min(4 * k + q, p.b_count - 1) * p.b_row;
            [[unroll]] for (int j = 0; j < COLS; j++) {
                FACTOR bv = AS_FACTOR(LOAD4(b, b_at[j] + row));
                if (RAGGED != 0) bv = mix(FACTOR(0.0), bv, bvec4(4 * k + q < p.b_count));
                [[unroll]] for (int i = 0; i < ROWS; i++)
                    SUM(acc, partial)[i * COLS + j] =
                        fma(FACTOR(av[i][q]), bv, SUM(acc, partial)[i * COLS + j]);
            }
        }
#else
        [[unroll]] for (int j = 0; j < COLS; j++) {
            vec4 b0 = LOAD4(b, b_at[4 * j] + k);
            vec4 b1 = LOAD4(b, b_at[4 * j + 1] + k);
            vec4 b2 = LOAD4(b, b_at[4 * j + 2] + k);
            vec4 b3 = LOAD4(b, b_at[4 * j + 3] + k);
            [[unroll]] for (int q = 0; q < 4; q++) {
                FACTOR bv = FACTOR(b0[q], b1[q], b2[q], b3[q]);
                [[unroll]] for (int i = 0; i < ROWS; i++)
                    SUM(acc, partial)[i * COLS + j] =
                        fma(FACTOR(av[i][q]), bv, SUM(acc, partial)[i * COLS + j]);
            }
        }
#endif
        ADD_PARTIAL_SUMS(acc, partial, ROWS * COLS, k)
    }
    ADD_PARTIAL_SUMS(acc, partial, ROWS * COLS, 3)

    // No exit from these loops: they would not be unrolled, and acc would not stay in registers.
    [[unroll]] for (int j = 0; j < COLS; j++) {
        int col = n0 + j;
        vec4 shift = vec4(0.0);
#if SEPARATE_BIAS == 1
        shift = LOAD4(bias, min(col, p.n4 - 1));
#else
        if (p.bias >= 0) shift = LOAD4(b, b_base + p.bias + min(col, p.n4 - 1));
#endif
        [[unroll]] for (int i = 0; i < ROWS; i++) {
            if (m0 + i < p.m && col < p.n4) {
                int at = c_base + (m0 + i) * p.c_row + col;
                STORE4(c, at, epilogue4(acc[i * COLS + j] * p.alpha + shift, at, col));
            }
        }
    }
}
