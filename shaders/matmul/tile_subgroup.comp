#version 450
#pragma vknn variants ACCESS=0,1,2 B_ALONG_K=0,1 SEPARATE_BIAS=0,1
#pragma vknn variants ACCESS=0,1,2 B_ALONG_K=0,1 SEPARATE_BIAS=0,1 HALF=1,2,3
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "common/tensor.glsl"
#include "matmul/storage.glsl"
#include "matmul/batch.glsl"

// As matmul/tile, for workgroups of one subgroup of 8 lanes: all of them compute the same columns, so
// each vec4 of b is loaded by one lane and handed to the others by a shuffle with a constant index.

INPUT4A(0, a);
INPUT4F(1, b);
OUTPUT4C(2, c);
#if SEPARATE_BIAS == 1
INPUT4F(3, bias);
#define EPILOGUE_OPERANDS 0
#endif
#define EPILOGUE_BINDING 3
#include "common/epilogue.glsl"

const int LANES = 8;
layout(constant_id = 10) const int ROWS = 2;
layout(constant_id = 11) const int COLS = 8;  // an even number
layout(constant_id = 12) const int RAGGED = 0;  // as in matmul/tile
const int LOADS = COLS / 2;                   // vec4s of b that a lane loads for a vec4 of k

layout(push_constant) uniform P {
    int m;
    int n4;
    int k4;
    int b_count;
    int a_row;
    int b_row;
    int b_block;
    int b_panel;
    int c_row;
    int bias;
    float alpha;
    BATCH_MEMBERS
} p;

void main() {
    int lane = int(gl_SubgroupInvocationID);
    int m0 = (int(gl_WorkGroupID.x) * LANES + lane) * ROWS;
    int n0 = int(gl_WorkGroupID.y) * COLS;
    BATCH_PLACES(int(gl_WorkGroupID.z))

    vec4 acc[ROWS * COLS];
    int a_at[ROWS];
    [[unroll]] for (int i = 0; i < ROWS; i++) a_at[i] = a_base + min(m0 + i, p.m - 1) * p.a_row;
    [[unroll]] for (int i = 0; i < ROWS * COLS; i++) acc[i] = vec4(0.0);

    int b_at[LOADS];
    int b_k[LOADS];
    [[unroll]] for (int s = 0; s < LOADS; s++) {
        int own = s * LANES + lane;
#if B_ALONG_K == 0
        int col = min(n0 + own % COLS, p.n4 - 1);
        b_at[s] = b_base + col / p.b_block * p.b_panel + col % p.b_block;
        b_k[s] = own / COLS;
#else
        b_at[s] = b_base + min(4 * n0 + own, p.b_count - 1) * p.b_row;
#endif
    }

    for (int k = 0; k < p.k4; k++) {
        vec4 av[ROWS];
        vec4 bl[LOADS];
        [[unroll]] for (int i = 0; i < ROWS; i++) av[i] = LOAD4(a, a_at[i] + k);
#if B_ALONG_K == 0
        [[unroll]] for (int s = 0; s < LOADS; s++) {
            int row = 4 * k + b_k[s];
            bl[s] = LOAD4(b, b_at[s] + min(row, p.b_count - 1) * p.b_row);
            if (RAGGED != 0) bl[s] = mix(vec4(0.0), bl[s], bvec4(row < p.b_count));
        }
        [[unroll]] for (int q = 0; q < 4; q++) {
            [[unroll]] for (int j = 0; j < COLS; j++) {
                int own = q * COLS + j;
                vec4 bv = subgroupShuffle(bl[own / LANES], uint(own % LANES));
                [[unroll]] for (int i = 0; i < ROWS; i++)
                    acc[i * COLS + j] = fma(vec4(av[i][q]), bv, acc[i * COLS + j]);
            }
        }
#else
        [[unroll]] for (int s = 0; s < LOADS; s++) bl[s] = LOAD4(b, b_at[s] + k);
        [[unroll]] for (int j = 0; j < COLS; j++) {
            int s = 4 * j / LANES, first = 4 * j % LANES;
            vec4 b0 = subgroupShuffle(bl[s], uint(first));
            vec4 b1 = subgroupShuffle(bl[s], uint(first + 1));
            vec4 b2 = subgroupShuffle(bl[s], uint(first + 2));
            vec4 b3 = subgroupShuffle(bl[s], uint(first + 3));
            [[unroll]] for (int q = 0; q < 4; q++) {
                vec4 bv = vec4(b0[q], b1[q], b2[q], b3[q]);
                [[unroll]] for (int i = 0; i < ROWS; i++)
                    acc[i * COLS + j] = fma(vec4(av[i][q]), bv, acc[i * COLS + j]);
            }
        }
#endif
        }

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
