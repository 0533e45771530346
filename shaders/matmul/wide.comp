#version 450
#pragma vknn variants ACCESS=0 SEPARATE_BIAS=0,1
#pragma vknn variants ACCESS=0 SEPARATE_BIAS=0,1 HALF=1
#pragma vknn variants ACCESS=0 SEPARATE_BIAS=1 HALF=2
#pragma vknn variants ACCESS=0 SEPARATE_BIAS=0,1 HALF=1 HALF_SUMS=1
#pragma vknn variants ACCESS=0 SEPARATE_BIAS=1 HALF=2 HALF_SUMS=1
#pragma vknn variants ACCESS=0 SEPARATE_BIAS=0,1 HALF=1 DOTS=1,2
#pragma vknn variants ACCESS=0 SEPARATE_BIAS=1 HALF=2 DOTS=1,2
#pragma vknn variants ACCESS=0 SEPARATE_BIAS=0 NORMALIZED=1
#pragma vknn variants ACCESS=0 SEPARATE_BIAS=0 HALF=1 NORMALIZED=1
#pragma vknn variants ACCESS=0 SEPARATE_BIAS=0 HALF=1 HALF_SUMS=1 NORMALIZED=1
#pragma vknn variants ACCESS=0 SEPARATE_BIAS=0 HALF=1 DOTS=1,2 NORMALIZED=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#include "common/tensor.glsl"
#include "matmul/storage.glsl"
#include "matmul/batch.glsl"
#include "matmul/half_sums.glsl"
#ifdef DOTS
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "matmul/float_dots.glsl"
#undef FACTOR
#undef AS_FACTOR
#define FACTOR f16vec4
#define AS_FACTOR(v) f16vec4(v)
// b's vec4 number q of a step has the four of k for column q.
#define ADD_PRODUCT(i, q, av, bv) acc[i][q] = dot_added(av, bv, acc[i][q]);
#else
// b's vec4 number q of a step has the columns for the q-th of k.
#define ADD_PRODUCT(i, q, av, bv) SUM(acc, partial)[i] = fma(FACTOR(av[q]), bv, SUM(acc, partial)[i]);
#endif

// c[m, n] = alpha * sum over k of a[m, k] * b[k, n] + bias[n], for GPUs: lanes lie side by side along n,
// each with ROWS rows of 4 columns, so that a workgroup reads whole rows of b and all of its lanes the
// same vec4s of a, which compilers then load once a subgroup into scalar registers.
//
// k is a multiple of 4. a holds vec4s along k; b and c vec4s along n, b in panels of b_block of them.
// With DOTS b has vec4s along k, four rows of a panel those of the four columns of a vec4 of c.
// PARTS subgroups or more share a tile: each adds up a part of k, in multiples of 16, then the parts are
// added in their order through shared memory.
// NORMALIZED: the rows of c are normalised, too (matmul/normalized_rows.glsl).

INPUT4A(0, a);
INPUT4F(1, b);
#ifdef NORMALIZED
COHERENT4(2, c);
#define NORMALIZED_BINDING 3
#define EPILOGUE_BINDING 6
#else
OUTPUT4C(2, c);
#define EPILOGUE_BINDING 3
#endif
#if SEPARATE_BIAS == 1
INPUT4F(3, bias);
#define EPILOGUE_OPERANDS 0
#endif
#include "common/epilogue.glsl"

layout(constant_id = 10) const int ROWS = 8;
layout(constant_id = 11) const int STEPS = 2;    // vec4s of k that are loaded before they are multiplied
layout(constant_id = 12) const int LANES_N = 64;
layout(constant_id = 13) const int PARTS = 1;
layout(constant_id = 14) const int CHUNK = 1;    // rows of sums in shared memory at a time
layout(constant_id = 15) const int B_ROW = 0;    // from one row of b to the next; 0: as p.b_row says

const int LANES = LANES_N * PARTS;

layout(push_constant) uniform P {
    int m;
    int n4;       // vec4s in a row of c
    int k4;       // vec4s in a row of a
    int span;     // vec4s of k in a part
    int a_row;    // from one row of a to the next
    int b_row;
    int b_block;
    int b_panel;  // from one panel of b to the next
    int c_row;
    int bias;     // place of the bias behind the weights of a batch entry in b; -1: none there
    float alpha;
    BATCH_MEMBERS
} p;

shared vec4 held[PARTS > 1 ? LANES * CHUNK : 1];

#ifdef NORMALIZED
#include "matmul/normalized_rows.glsl"
#endif

vec4 acc[ROWS];
#ifdef HALF_SUMS
f16vec4 partial[ROWS];
#endif

// acc += the products of COUNT vec4s of k from number k on; all that they need is loaded first.
#define MULTIPLY(COUNT) \
    { \
        FACTOR av[ROWS * COUNT]; \
        FACTOR bv[4 * COUNT]; \
        [[unroll]] for (int r = 0; r < 4 * COUNT; r++) bv[r] = AS_FACTOR(LOAD4(b, b_at + r * b_row)); \
        [[unroll]] for (int i = 0; i < ROWS; i++) { \
            [[unroll]] for (int s = 0; s < COUNT; s++) \
                av[i * COUNT + s] = AS_FACTOR(LOAD4(a, a_at[i] + k + s)); \
        } \
        [[unroll]] for (int s = 0; s < COUNT; s++) { \
            [[unroll]] for (int q = 0; q < 4; q++) { \
                [[unroll]] for (int i = 0; i < ROWS; i++) { ADD_PRODUCT(i, q, av[i * COUNT + s], bv[4 * s + q]) } \
            } \
        } \
        b_at += 4 * COUNT * b_row; \
    }

void finish(vec4 v, vec4 shift, int row, int col, int base) {
    int at = base + row * p.c_row + col;
    if (row < p.m && col < p.n4) STORE4(c, at, epilogue4(v * p.alpha + shift, at, col));
}

void main() {
    int lane = int(gl_LocalInvocationID.x);
    int part = 0, column = lane, own_part = 0;
    bool whole = true;
    if (PARTS > 1) {
        // Compilers know that a subgroup's number is the same in all of its lanes, and so load a once for
        // all of them. Where subgroups are not as they should be, all lanes add up all parts.
        int size = int(gl_SubgroupSize), sharing = max(1, LANES_N / size);
        whole = LANES_N % size == 0 && int(gl_NumSubgroups) * size == LANES;
        part = whole ? int(gl_SubgroupID) / sharing : 0;
        own_part = whole ? part : lane / LANES_N;
        column = whole ? int(gl_SubgroupID) % sharing * size + int(gl_SubgroupInvocationID) : lane % LANES_N;
    }
    int m0 = int(gl_WorkGroupID.x) * ROWS;
    int col = int(gl_WorkGroupID.y) * LANES_N + column;
    BATCH_PLACES(int(gl_WorkGroupID.z))

    int a_at[ROWS];
    [[unroll]] for (int i = 0; i < ROWS; i++) {
        a_at[i] = a_base + min(m0 + i, p.m - 1) * p.a_row;
        acc[i] = vec4(0.0);
#ifdef HALF_SUMS
        partial[i] = f16vec4(0.0);
#endif
    }
    int k = part * p.span;
    int end = whole ? min(p.k4, k + p.span) : p.k4;
    int b_row = B_ROW > 0 ? B_ROW : p.b_row;
    int own = min(col, p.n4 - 1);
    int b_at = b_base + own / p.b_block * p.b_panel + own % p.b_block + 4 * k * b_row;
    for (; k + STEPS <= end; k += STEPS) {
        MULTIPLY(STEPS)
        ADD_PARTIAL_SUMS(acc, partial, ROWS, k + STEPS - 1)
    }
    for (; k < end; k++) {
        MULTIPLY(1)
        ADD_PARTIAL_SUMS(acc, partial, ROWS, k)
    }
    ADD_LAST_SUMS(acc, partial, ROWS)

    vec4 shift = vec4(0.0);
#if SEPARATE_BIAS == 1
    shift = LOAD4(bias, own);
#else
    if (p.bias >= 0) shift = LOAD4(b, b_base + p.bias + own);
#endif
    if (PARTS == 1) {
        [[unroll]] for (int i = 0; i < ROWS; i++) finish(acc[i], shift, m0 + i, col, c_base);
#ifdef NORMALIZED
        normalize_rows(lane, m0, ROWS, p.m, p.n4);
#endif
        return;
    }
    [[unroll]] for (int first = 0; first < ROWS; first += CHUNK) {
        [[unroll]] for (int i = 0; i < CHUNK; i++)
            held[(own_part * CHUNK + i) * LANES_N + column] = own_part == part ? acc[first + i] : vec4(0.0);
        barrier();
        if (own_part < CHUNK) {
            vec4 sum = held[own_part * LANES_N + column];
            [[unroll]] for (int other = 1; other < PARTS; other++)
                sum += held[(other * CHUNK + own_part) * LANES_N + column];
            finish(sum, shift, m0 + first + own_part, col, c_base);
        }
        barrier();
    }
#ifdef NORMALIZED
    normalize_rows(lane, m0, ROWS, p.m, p.n4);
#endif
}
