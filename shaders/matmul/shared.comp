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
#pragma vknn variants ACCESS=0 B_BY_4=1 SEPARATE_BIAS=0 NORMALIZED=1
#pragma vknn variants ACCESS=0 B_BY_4=1 SEPARATE_BIAS=0 HALF=1 NORMALIZED=1
#pragma vknn variants ACCESS=0 B_BY_4=1 SEPARATE_BIAS=0 HALF=1 HALF_SUMS=1 NORMALIZED=1
#pragma vknn variants ACCESS=0 B_BY_4=1 SEPARATE_BIAS=0 HALF=1 COOPERATIVE=1 NORMALIZED=1
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
#ifdef NORMALIZED
COHERENT4(2, c);
#define NORMALIZED_BINDING 3
#define EPILOGUE_BINDING 6
#elif defined(EPILOGUE_SCALAR)
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
#ifndef NORMALIZED
#define EPILOGUE_BINDING 3
#endif
#include "common/epilogue.glsl"
#if B_BY_4 == 1
#define COLUMNS_OF b
#endif
#include "matmul/shared_memory_tiles.glsl"
#ifdef NORMALIZED
#include "matmul/normalized_rows.glsl"
#endif

// Which way lanes beside each other read: 1: a along m, b along k; 0: a along k, b along n.
layout(constant_id = 17) const int A_DOWN = 0;
layout(constant_id = 18) const int B_DOWN = 0;

const int A_LOADS = BLOCK_M * DEPTH / LANES;  // vec4s that a lane brings
const int B_LOADS = COLUMNS_IN_MEMORY != 0 ? 0 : 4 * DEPTH * BLOCK_N / LANES;
const int B_ROOM = B_LOADS > 0 ? B_LOADS : 1;

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
    int bias;     // place of the bias behind the weights of a batch entry in b; -1: none there
    float alpha;
    BATCH_MEMBERS
} p;

int a_row_of(int own) { return A_DOWN != 0 ? rest(own, BLOCK_M) : whole_part(own, DEPTH); }
int a_k4_of(int own) { return A_DOWN != 0 ? whole_part(own, BLOCK_M) : rest(own, DEPTH); }
// With COLUMNS_ALONG_K a "row" of b is a column of a vec4, which has vec4s of k; only with WHOLE.
int b_row_of(int own) {
    if (COLUMNS_ALONG_K != 0) return column_row(own);
    return B_DOWN != 0 ? rest(own, 4 * DEPTH) : whole_part(own, BLOCK_N);
}
int b_column_of(int own) {
    if (COLUMNS_ALONG_K != 0) return column_vec4(own);
    return B_DOWN != 0 ? whole_part(own, 4 * DEPTH) : rest(own, BLOCK_N);
}
// Places in shared memory; those of LANES * i and of a lane add up to that of their sum, since of LANES and what
// it is divided by one divides the other.
int a_place_of(int own) { return a_row_of(own) * A_STRIDE + a_k4_of(own); }
int b_place_of(int own) {
    return COLUMNS_ALONG_K != 0 ? column_place(own) : b_row_of(own) * B_STRIDE + b_column_of(own);
}

// Places of what a lane reads of the first tile of k, and what it has read. Steps to further tiles are
// the same for all lanes, so there is one addition a load.
int a_at[A_LOADS], b_at[B_ROOM];
// Where it puts the first of them.
int a_place, b_place;
#ifdef EPILOGUE_SCALAR
ivec3 a_beside[A_LOADS];  // from the first of four steps of k to the others
#endif
#if B_BY_4 == 0
ivec3 b_beside[B_ROOM];  // from the first of four columns to the others
#endif
WAITING a_read[A_LOADS], b_read[B_ROOM];

void find_places(int lane, int m0, int n0, int a_base, int b_base) {
    a_place = a_place_of(lane);
    b_place = b_place_of(lane);
    [[unroll]] for (int i = 0; i < A_LOADS; i++) {
        // In parts, of which a lane's is often the same for all of its loads.
        int k4 = a_k4_of(i * LANES) + a_k4_of(lane);
        a_at[i] = a_base + min(m0 + a_row_of(i * LANES) + a_row_of(lane), p.m - 1) * p.a_row;
#ifdef EPILOGUE_SCALAR
        int first = min(4 * k4, p.k - 1);
        a_at[i] += first * p.a_col;
        a_beside[i] = (min(4 * k4 + ivec3(1, 2, 3), ivec3(p.k - 1)) - first) * p.a_col;
#else
        a_at[i] += min(k4, p.k / 4 - 1);
#endif
    }
    [[unroll]] for (int i = 0; i < B_LOADS; i++) {
        int own = i * LANES + lane;
        int column = n0 + b_column_of(own);
        b_at[i] = b_base + min(b_row_of(own), p.k - 1) * p.b_row;
#if B_BY_4 == 1
        column = min(column, (p.n - 1) / 4);
        b_at[i] += column / p.b_block * p.b_panel + column % p.b_block;
#else
        int first = min(4 * column, p.n - 1);
        b_at[i] += first * p.b_col;
        b_beside[i] = (min(4 * column + ivec3(1, 2, 3), ivec3(p.n - 1)) - first) * p.b_col;
#endif
    }
}

// Where to read the tile that begins with vec4 number k0 of k: one that reaches beyond the end is read
// from as much before.
int begin_of(int k0) { return WHOLE != 0 ? 4 * k0 : max(0, min(4 * k0, p.k - 4 * DEPTH)); }

void read_tile(int k0) {
    int k = begin_of(k0);
    int b_step = k * p.b_row;
#ifdef EPILOGUE_SCALAR
    int a_step = k * p.a_col;
#else
    int a_step = whole_part(k, 4);
#endif
    [[unroll]] for (int i = 0; i < A_LOADS; i++) {
        int at = a_at[i] + a_step;
#ifdef EPILOGUE_SCALAR
        ivec3 beside = at + a_beside[i];
        a_read[i] = waiting(FACTOR(LOAD1(a, at), LOAD1(a, beside.x), LOAD1(a, beside.y), LOAD1(a, beside.z)));
#else
        a_read[i] = waiting(FACTOR(LOAD4(a, at)));
#endif
    }
    [[unroll]] for (int i = 0; i < B_LOADS; i++) {
        int at = b_at[i] + b_step;
#if B_BY_4 == 1
        b_read[i] = waiting(FACTOR(LOAD4(b, at)));
#else
        ivec3 beside = at + b_beside[i];
        b_read[i] = waiting(FACTOR(LOAD1(b, at), LOAD1(b, beside.x), LOAD1(b, beside.y), LOAD1(b, beside.z)));
#endif
    }
}

// Puts what was read into shared memory; zeros for what the tile before had already, and for what is
// behind the end of a k shorter than a tile. For b too: zeros of a must not meet infinity.
void hold_tile(int lane, int k0) {
    if (WHOLE == 0 && 4 * (k0 + DEPTH) > p.k) {
        int done = 4 * k0 - begin_of(k0);
        [[unroll]] for (int i = 0; i < A_LOADS; i++) {
            ivec4 k = 4 * a_k4_of(i * LANES + lane) + ivec4(0, 1, 2, 3);
            FACTOR v = mix(FACTOR(0.0), arrived(a_read[i]), lessThan(k, ivec4(p.k)));
            a_read[i] = waiting(mix(FACTOR(0.0), v, greaterThanEqual(k, ivec4(done))));
        }
        [[unroll]] for (int i = 0; i < B_LOADS; i++) {
            int k = b_row_of(i * LANES + lane);
            if (k < done || k >= p.k) b_read[i] = WAITING(0);
        }
    }
    [[unroll]] for (int i = 0; i < A_LOADS; i++) rows_held[a_place_of(i * LANES) + a_place] = arrived(a_read[i]);
    [[unroll]] for (int i = 0; i < B_LOADS; i++) columns_held[b_place_of(i * LANES) + b_place] = arrived(b_read[i]);
}

void main() {
    int lane = int(gl_LocalInvocationID.x);
    int n_ = rest(lane, LANES_N), m_ = whole_part(lane, LANES_N);
    int m0 = int(gl_WorkGroupID.x) * BLOCK_M;
    int n0 = int(gl_WorkGroupID.y) * BLOCK_N;
    BATCH_PLACES(int(gl_WorkGroupID.z))

    [[unroll]] for (int i = 0; i < ROWS * COLS; i++) sums[i] = vec4(0.0);
    begin_products(b_base + int(gl_WorkGroupID.y) * p.b_panel);
    int k4 = (p.k + 3) / 4;
    find_places(lane, m0, n0, a_base, b_base);
    if (AHEAD != 0) {
        read_tile(0);
        hold_tile(lane, 0);
    }
    int k0 = 0;
    do {
        if (AHEAD == 0) {
            read_tile(k0);
            hold_tile(lane, k0);
        }
#if defined(COOPERATIVE) && B_BY_4 == 1
        // A panel is as wide as the tile then.
        if (COLUMNS_IN_MEMORY != 0) read_columns();
#endif
        barrier();
        k0 += DEPTH;
        bool reads = AHEAD == 2 || AHEAD != 0 && k0 < k4;
        if (reads) read_tile(min(k0, k4 - DEPTH));
        multiply_held(m_, n_);
        barrier();
        if (reads) hold_tile(lane, k0);
    } while (k0 < k4);
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
        if (p.bias >= 0) shift = LOAD4(b, b_base + p.bias + min(col, last));
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
#ifdef NORMALIZED
    normalize_rows(lane, m0, BLOCK_M, p.m, p.n / 4);
#endif
}
