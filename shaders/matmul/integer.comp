#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common/tensor.glsl"
#include "matmul/batch.glsl"

// c[m, n] = sum over k of a[m, k] * b[k, n] in int32, any sizes and strides; ROWS x COLS results a lane.

INPUT1I(0, a);
INPUT1I(1, b);
OUTPUT1I(2, c);

layout(constant_id = 10) const int ROWS = 4;
layout(constant_id = 11) const int COLS = 4;
// A workgroup is LANES_M x LANES_N tiles, all in local_size_x: CPU drivers run lanes of x side by side.
layout(constant_id = 12) const int LANES_M = 1;
layout(constant_id = 13) const int LANES_N = 1;

layout(push_constant) uniform P {
    int m;
    int n;
    int k;
    int a_row;
    int a_col;
    int b_row;
    int b_col;
    int c_row;
    BATCH_MEMBERS
} p;

void main() {
    int lane = int(gl_LocalInvocationID.x);
    int m0 = (int(gl_WorkGroupID.x) * LANES_M + lane % LANES_M) * ROWS;
    int n0 = (int(gl_WorkGroupID.y) * LANES_N + lane / LANES_M) * COLS;
    if (m0 >= p.m || n0 >= p.n) return;
    BATCH_PLACES(int(gl_GlobalInvocationID.z))

    int acc[ROWS * COLS];
    int a_at[ROWS];
    int b_at[COLS];
    [[unroll]] for (int i = 0; i < ROWS * COLS; i++) acc[i] = 0;
    [[unroll]] for (int i = 0; i < ROWS; i++) a_at[i] = a_base + min(m0 + i, p.m - 1) * p.a_row;
    [[unroll]] for (int j = 0; j < COLS; j++) b_at[j] = b_base + min(n0 + j, p.n - 1) * p.b_col;

    for (int k = 0; k < p.k; k++) {
        int av[ROWS];
        [[unroll]] for (int i = 0; i < ROWS; i++) av[i] = LOAD1(a, a_at[i] + k * p.a_col);
        [[unroll]] for (int j = 0; j < COLS; j++) {
            int bv = LOAD1(b, b_at[j] + k * p.b_row);
            [[unroll]] for (int i = 0; i < ROWS; i++) acc[i * COLS + j] += av[i] * bv;
        }
    }

    [[unroll]] for (int i = 0; i < ROWS; i++) {
        [[unroll]] for (int j = 0; j < COLS; j++) {
            if (m0 + i < p.m && n0 + j < p.n)
                STORE1(c, c_base + (m0 + i) * p.c_row + n0 + j, acc[i * COLS + j]);
        }
    }
}
