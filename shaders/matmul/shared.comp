#version 450
#pragma vknn variants ACCESS=0 B_BY_4=0,1 SEPARATE_BIAS=0,1
#pragma vknn variants ACCESS=0 B_BY_4=0,1 SEPARATE_BIAS=0,1 EPILOGUE_SCALAR=1
#pragma vknn variants ACCESS=0 B_BY_4=0,1 SEPARATE_BIAS=0,1 HALF=1
#pragma vknn variants ACCESS=0 B_BY_4=0,1 SEPARATE_BIAS=1 HALF=2
#pragma vknn variants ACCESS=0 B_BY_4=0,1 SEPARATE_BIAS=0,1 EPILOGUE_SCALAR=1 HALF=1
#pragma vknn variants ACCESS=0 B_BY_4=0,1 SEPARATE_BIAS=1 EPILOGUE_SCALAR=1 HALF=2
#pragma vknn variants ACCESS=0 B_BY_4=0,1 SEPARATE_BIAS=0,1 HALF=1 HALF_SUMS=1
#pragma vknn variants ACCESS=0 B_BY_4=0,1 SEPARATE_BIAS=1 HALF=2 HALF_SUMS=1
#pragma vknn variants ACCESS=0 B_BY_4=0,1 SEPARATE_BIAS=0,1 EPILOGUE_SCALAR=1 HALF=1 HALF_SUMS=1
#pragma vknn variants ACCESS=0 B_BY_4=0,1 SEPARATE_BIAS=1 EPILOGUE_SCALAR=1 HALF=2 HALF_SUMS=1
#pragma vknn variants ACCESS=0 B_BY_4=0,1 SEPARATE_BIAS=0,1 HALF=1 COOPERATIVE=1
#pragma vknn variants ACCESS=0 B_BY_4=0,1 SEPARATE_BIAS=1 HALF=2 COOPERATIVE=1
#pragma vknn variants ACCESS=0 B_BY_4=0,1 SEPARATE_BIAS=0,1 EPILOGUE_SCALAR=1 HALF=1 COOPERATIVE=1
#pragma vknn variants ACCESS=0 B_BY_4=0,1 SEPARATE_BIAS=1 EPILOGUE_SCALAR=1 HALF=2 COOPERATIVE=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common/tensor.glsl"
#include "matmul/storage.glsl"
#include "matmul/batch.glsl"

// c[m, n] = alpha * sum over k of a[m, k] * b[k, n] + bias[n], for GPUs: a workgroup computes a tile of
// c from shared memory (matmul/shared_memory_tiles.glsl).
//
// a and c are addressed by vec4s (a along k, k a multiple of 4) or, with EPILOGUE_SCALAR, by scalars in
// any strides. B_BY_4 1: b holds vec4s along n, its columns in panels of b_block vec4s; 0: scalars in any
// strides.

#ifdef EPILOGUE_SCALAR
INPUT1A(0, a);
#else
INPUT4A(0, a);
#endif
#if B_BY_4 == 1
INPUT4F(1, b);
#else
INPUT1F(1, b);
#endif
#ifdef EPILOGUE_SCALAR
OUTPUT1C(2, c);
#else
OUTPUT4C(2, c);
#endif
#if SEPARATE_BIAS == 1
#ifdef EPILOGUE_SCALAR
INPUT1F(3, bias);
#else
INPUT4F(3, bias);
#endif
#define EPILOGUE_OPERANDS 0
#endif
#define EPILOGUE_BINDING 3
#include "common/epilogue.glsl"
#include "matmul/shared_memory_tiles.glsl"

// Which way lanes beside each other read: 1: a along m, b along k; 0: a along k, b along n.
layout(constant_id = 17) const int A_DOWN = 0;
layout(constant_id = 18) const int B_DOWN = 0;

const int A_LOADS = BLOCK_M * DEPTH / LANES;  // vec4s that a lane brings
const int B_LOADS = 4 * DEPTH * BLOCK_N / LANES;

layout(push_constant) uniform P {
    int m;
    int n;
    int k;
    int a_row;    // step of a for the next m
    int a_col;    // step of a for the next k, or vec4 of k
    int b_row;    // step of b for the next k
    int b_col;    // step of b for the next n (B_BY_4 0)
    int b_block;  // (B_BY_4 1)
    int b_panel;
    int c_row;
    int bias;     // place of the bias behind the weights in b; -1: none there
    float alpha;
    BATCH_MEMBERS
} p;

void bring_rows(int lane, int m0, int k0, int from) {
    [[unroll]] for (int i = 0; i < A_LOADS; i++) {
        int own = i * LANES + lane;
        int row = A_DOWN != 0 ? own % BLOCK_M : own / DEPTH;
        int k4 = A_DOWN != 0 ? own / BLOCK_M : own % DEPTH;
        int at = from + min(m0 + row, p.m - 1) * p.a_row;
        vec4 v = vec4(0.0);
#ifdef EPILOGUE_SCALAR
        [[unroll]] for (int q = 0; q < 4; q++) {
            int k = 4 * (k0 + k4) + q;
            if (k < p.k) v[q] = LOAD1(a, at + k * p.a_col);
        }
#else
        if (4 * (k0 + k4) < p.k) v = LOAD4(a, at + (k0 + k4) * p.a_col);
#endif
        rows_held[row * A_STRIDE + k4] = FACTOR(v);
    }
}

void bring_columns(int lane, int n0, int k0, int from) {
    [[unroll]] for (int i = 0; i < B_LOADS; i++) {
        int own = i * LANES + lane;
        int row = B_DOWN != 0 ? own % (4 * DEPTH) : own / BLOCK_N;
        int column = B_DOWN != 0 ? own / (4 * DEPTH) : own % BLOCK_N;
        int k = 4 * k0 + row;
        vec4 v = vec4(0.0);
        // Rows behind the last meet zeros in a, but must not be infinite.
        if (k < p.k) {
#if B_BY_4 == 1
            int col = min(n0 + column, (p.n - 1) / 4);
            v = LOAD4(b, from + col / p.b_block * p.b_panel + col % p.b_block + k * p.b_row);
#else
            int at = from + k * p.b_row;
            [[unroll]] for (int q = 0; q < 4; q++)
                v[q] = LOAD1(b, at + min(4 * (n0 + column) + q, p.n - 1) * p.b_col);
#endif
        }
        columns_held[row * B_STRIDE + column] = FACTOR(v);
    }
}

void main() {
    int lane = int(gl_LocalInvocationID.x);
    int n_ = lane % LANES_N, m_ = lane / LANES_N;
    int m0 = int(gl_WorkGroupID.x) * BLOCK_M;
    int n0 = int(gl_WorkGroupID.y) * BLOCK_N;
    BATCH_PLACES(int(gl_WorkGroupID.z))

    [[unroll]] for (int i = 0; i < ROWS * COLS; i++) sums[i] = vec4(0.0);
    begin_products();
    int k4 = (p.k + 3) / 4;
    for (int k0 = 0; k0 < k4; k0 += DEPTH) {
        bring_rows(lane, m0, k0, a_base);
        bring_columns(lane, n0, k0, b_base);
        barrier();
        multiply_held(m_, n_);
        barrier();
    }
    end_products(m_, n_);

    // No exit from these loops: they would not be unrolled, and the sums would not stay in registers.
    [[unroll]] for (int j = 0; j < COLS; j++) {
        int col = n0 + n_ + j * LANES_N;
        int last = (p.n - 1) / 4;
        vec4 shift = vec4(0.0);
#if SEPARATE_BIAS == 1
#ifdef EPILOGUE_SCALAR
        [[unroll]] for (int q = 0; q < 4; q++) shift[q] = LOAD1(bias, min(4 * col + q, p.n - 1));
#else
        shift = LOAD4(bias, min(col, last));
#endif
#elif B_BY_4 == 1
        if (p.bias >= 0) shift = LOAD4(b, p.bias + min(col, last));
#endif
        [[unroll]] for (int i = 0; i < ROWS; i++) {
            int row = m0 + m_ + i * LANES_M;
            vec4 v = sums[i * COLS + j] * p.alpha + shift;
#ifdef EPILOGUE_SCALAR
            [[unroll]] for (int q = 0; q < 4; q++) {
                int at = c_base + row * p.c_row + 4 * col + q;
                if (row < p.m && 4 * col + q < p.n) STORE1(c, at, epilogue1(v[q], at, 4 * col + q));
            }
#else
            int at = c_base + row * p.c_row + col;
            if (row < p.m && col <= last) STORE4(c, at, epilogue4(v, at, col));
#endif
        }
    }
}
