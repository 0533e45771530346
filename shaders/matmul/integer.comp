#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 DOTS=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common/tensor.glsl"
#include "matmul/batch.glsl"
#ifdef DOTS
#include "quantized/integer_dots.glsl"
#endif

// c[m, n] = sum over k of a[m, k] * b[k, n] in int32, any sizes and strides; ROWS x COLS results a lane.
// DOTS: factors are int8, and four of k become the bytes of an integer; what is left of k goes one by
// one. With MIXED a is 128 more, as unsigned bytes, and 128 times the sum of b is taken off again.

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

#ifdef DOTS
// Elements k to k + 3 along a step of a matrix.
#define FOUR_BYTES(name, at, step) four_bytes(ivec4( \
    LOAD1(name, at + k * step), LOAD1(name, at + (k + 1) * step), \
    LOAD1(name, at + (k + 2) * step), LOAD1(name, at + (k + 3) * step)))

int four_bytes(ivec4 v) {
    v &= 255;
    return v.x | v.y << 8 | v.z << 16 | v.w << 24;
}
#endif

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

    int k = 0;
#ifdef DOTS
    int of_b[COLS];
    [[unroll]] for (int j = 0; j < COLS; j++) of_b[j] = 0;
    for (; k + 3 < p.k; k += 4) {
        int av[ROWS];
        [[unroll]] for (int i = 0; i < ROWS; i++) {
            av[i] = FOUR_BYTES(a, a_at[i], p.a_col);
            if (MIXED != 0) av[i] ^= int(0x80808080);
        }
        [[unroll]] for (int j = 0; j < COLS; j++) {
            int bv = FOUR_BYTES(b, b_at[j], p.b_row);
            [[unroll]] for (int i = 0; i < ROWS; i++)
                acc[i * COLS + j] += MIXED != 0 ? mixed_dot(bv, av[i], 0) : signed_dot(av[i], bv, 0);
            if (MIXED != 0) of_b[j] += mixed_dot(bv, 0x01010101, 0);
        }
    }
    if (MIXED != 0) {
        [[unroll]] for (int i = 0; i < ROWS * COLS; i++) acc[i] -= 128 * of_b[i % COLS];
    }
#endif
    for (; k < p.k; k++) {
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
