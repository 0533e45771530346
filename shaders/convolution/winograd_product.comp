#version 450
#pragma vknn variants ACCESS=0,1,2 SHUFFLE=0,1
#pragma vknn variants ACCESS=0,1,2 SHUFFLE=0,1 HALF=1
#pragma vknn variants ACCESS=0 SHUFFLE=0 AHEAD=1
#pragma vknn variants ACCESS=0 SHUFFLE=0 AHEAD=1 HALF=1 BF16=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#if SHUFFLE
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
// Winograd's second step: for each place in a tile, the product of the transformed weights and the
// transformed input over all input channels. A lane computes TN tiles times TM vec4s of channels.
//
// v: [place][c4][tile] vec4s. u: [place][block][c4][4][TM] vec4s of output channels, the 4 for the
// lanes of an input vec4. product: [place][m4][tile].
//
// SHUFFLE: see convolution/products.glsl.
// AHEAD, for GPUs: the inputs of the next round of channels are on their way while one is multiplied.
#include "common/tensor.glsl"
#include "common/grid.glsl"

INPUT4S(0, v);
INPUT4F(1, u);
OUTPUT4S(2, product);

layout(constant_id = 10) const int TN = 4;
layout(constant_id = 11) const int TM = 4;
#if AHEAD
layout(constant_id = 12) const int ROUND = 1;  // vec4s of channels of a round, of which c4 has an even number
#endif

#define QUANT 0
#define WEIGHT4 vec4
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#include "matmul/half_sums.glsl"
#include "convolution/products.glsl"

layout(push_constant) uniform P {
    int total, chunks, blocks;  // workgroups; those of a row of tiles; blocks of output channels
    int tiles, c4, m4;
    int v_step, product_step;   // vec4s from place to place
} p;

#if AHEAD
// A round's inputs, and their products; names as in main.
#define LOAD_ROUND(a) \
    [[unroll]] for (int s = 0; s < ROUND; s++) \
        [[unroll]] for (int i = 0; i < TN; i++) a[s * TN + i] = LOAD4(v, plane + s * tiles + at[i]);
#define ADD_ROUND(a) \
    [[unroll]] for (int s = 0; s < ROUND; s++) { \
        vec4 own[TN]; \
        [[unroll]] for (int i = 0; i < TN; i++) own[i] = a[s * TN + i]; \
        ADD_PRODUCTS(sum, partial, own, u, weight) \
        weight += 4 * TM; \
    }
#endif

void main() {
    int id = linear_group();
    if (id >= p.total) return;
    int lane = int(gl_LocalInvocationID.x);
    int lanes = int(gl_WorkGroupSize.x);
    int row = divide(id, p.chunks);
    int first = (id - row * p.chunks) * TN * lanes + lane;
    int place = divide(row, p.blocks);
    int block = row - place * p.blocks;
    int tiles = p.tiles, c4 = p.c4;

    int at[TN];
    [[unroll]] for (int i = 0; i < TN; i++) at[i] = min(first + i * lanes, tiles - 1);
    vec4 sum[TN * TM];
    [[unroll]] for (int i = 0; i < TN * TM; i++) sum[i] = vec4(0.0);

    int plane = place * p.v_step;
    int weight = row * c4 * 4 * TM;
#if AHEAD
    // Two rounds take turns, so that nothing is copied. What the last one brings is used by none: it
    // brings what is there.
    vec4 a[ROUND * TN], b[ROUND * TN];
    LOAD_ROUND(a)
    int c = 0;
    do {
        plane += ROUND * tiles;
        LOAD_ROUND(b)
        ADD_ROUND(a)
        c += 2 * ROUND;
        plane += c < c4 ? ROUND * tiles : 0;
        LOAD_ROUND(a)
        ADD_ROUND(b)
    } while (c < c4);
#else
    // The end is tested behind the body: CPU drivers would run it once more, masked.
    int c = 0;
    do {
        vec4 a[TN];
        [[unroll]] for (int i = 0; i < TN; i++) a[i] = LOAD4(v, plane + at[i]);
        HOLD_WEIGHTS(u, weight)
        ADD_PRODUCTS(sum, partial, a, u, weight)
        plane += tiles;
        weight += 4 * TM;
        c++;
    } while (c < c4);
#endif

    int m = block * TM, m4 = p.m4;
    int target = place * p.product_step + m * tiles + first;
    [[unroll]] for (int j = 0; j < TM; j++) {
        [[unroll]] for (int i = 0; i < TN; i++) {
            if (first + i * lanes < tiles && m + j < m4)
                STORE4(product, target + j * tiles + i * lanes, sum[i * TM + j]);
        }
    }
}
