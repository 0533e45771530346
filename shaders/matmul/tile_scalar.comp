#version 450
#pragma vknn variants ACCESS=0,1,2 B_PACKED=0,1 SEPARATE_BIAS=0,1
#pragma vknn variants ACCESS=0,1,2 B_PACKED=0,1 SEPARATE_BIAS=0,1 HALF=1,2,3
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common/tensor.glsl"
#include "matmul/storage.glsl"
#include "matmul/batch.glsl"

// c[m, n] = alpha * sum over k of a[m, k] * b[k, n] + bias[n] for any sizes and any strides: a, c and
// the run-time b are addressed by scalars. A tile of ROWS x 4 COLS results a lane.
// B_PACKED 1: b is a constant, vec4s along n in panels of b_block vec4s.

INPUT1A(0, a);
#if B_PACKED == 1
INPUT4F(1, b);
#else
INPUT1F(1, b);
#endif
OUTPUT1C(2, c);
#if SEPARATE_BIAS == 1
INPUT1F(3, bias);
#define EPILOGUE_OPERANDS 0
#endif
#define EPILOGUE_BINDING 3
#define EPILOGUE_SCALAR
#include "common/epilogue.glsl"

layout(constant_id = 10) const int ROWS = 4;
layout(constant_id = 11) const int COLS = 1;
// A workgroup is LANES_M x LANES_N tiles, all in local_size_x: CPU drivers run lanes of x side by side.
layout(constant_id = 12) const int LANES_M = 1;
layout(constant_id = 13) const int LANES_N = 1;

layout(push_constant) uniform P {
    int m;
    int n;
    int k;
    int a_row;    // step of a for the next m
    int a_col;    // step of a for the next k
    int b_row;    // step of b for the next k
    int b_col;    // step of b for the next n (B_PACKED 0)
    int b_block;  // (B_PACKED 1)
    int b_panel;
    int c_row;
    int bias;     // place of the bias behind the packed weights of a batch entry; -1: none there
    float alpha;
    BATCH_MEMBERS
} p;

void main() {
    int lane = int(gl_LocalInvocationID.x);
    int m0 = (int(gl_WorkGroupID.x) * LANES_M + lane % LANES_M) * ROWS;
    int n0 = (int(gl_WorkGroupID.y) * LANES_N + lane / LANES_M) * COLS * 4;
    if (m0 >= p.m || n0 >= p.n) return;
    BATCH_PLACES(int(gl_GlobalInvocationID.z))

    vec4 acc[ROWS * COLS];
    int a_at[ROWS];
    [[unroll]] for (int i = 0; i < ROWS; i++) a_at[i] = a_base + min(m0 + i, p.m - 1) * p.a_row;
    [[unroll]] for (int i = 0; i < ROWS * COLS; i++) acc[i] = vec4(0.0);

#if B_PACKED == 1
    int b_at[COLS];
    [[unroll]] for (int j = 0; j < COLS; j++) {
        int col = min(n0 / 4 + j, (p.n - 1) / 4);
        b_at[j] = b_base + col / p.b_block * p.b_panel + col % p.b_block;
    }
#else
    ivec4 b_at[COLS];
    [[unroll]] for (int j = 0; j < COLS; j++)
        b_at[j] = b_base + min(n0 + 4 * j + ivec4(0, 1, 2, 3), ivec4(p.n - 1)) * p.b_col;
#endif

    for (int k = 0; k < p.k; k++) {
        float av[ROWS];
        int row = k * p.b_row;
        [[unroll]] for (int i = 0; i < ROWS; i++) av[i] = LOAD1(a, a_at[i] + k * p.a_col);
        [[unroll]] for (int j = 0; j < COLS; j++) {
#if B_PACKED == 1
            vec4 bv = LOAD4(b, b_at[j] + row);
#else
            vec4 bv = vec4(LOAD1(b, b_at[j].x + row), LOAD1(b, b_at[j].y + row),
                           LOAD1(b, b_at[j].z + row), LOAD1(b, b_at[j].w + row));
#endif
            [[unroll]] for (int i = 0; i < ROWS; i++)
                acc[i * COLS + j] = fma(vec4(av[i]), bv, acc[i * COLS + j]);
        }
    }

    // No exit from these loops: they would not be unrolled, and acc would not stay in registers.
    [[unroll]] for (int j = 0; j < 4 * COLS; j++) {
        int col = n0 + j;
        float shift = 0.0;
#if SEPARATE_BIAS == 1
        shift = LOAD1(bias, min(col, p.n - 1));
#elif B_PACKED == 1
        if (p.bias >= 0) shift = LOAD4(b, b_base + p.bias + min(col, p.n - 1) / 4)[j % 4];
#endif
        [[unroll]] for (int i = 0; i < ROWS; i++) {
            if (m0 + i < p.m && col < p.n) {
                int at = c_base + (m0 + i) * p.c_row + col;
                float v = acc[i * COLS + j / 4][j % 4] * p.alpha + shift;
                STORE1(c, at, epilogue1(v, at, col));
            }
        }
    }
}
