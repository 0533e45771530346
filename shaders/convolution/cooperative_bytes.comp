#version 450
#pragma vknn variants ACCESS=0 QUANT=3 BYTES=0,1,2 COOPERATIVE=1
#pragma vknn variants ACCESS=0 QUANT=3 BYTES=0,1,2 COOPERATIVE=1 RESIDUAL=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#define ELEM 1
// Convolution of quantized integers as an implicit matrix product, as conv.comp with QUANT 3, by
// cooperative matrices of int8 with sums in int32: a workgroup computes BLOCK_M pixels and BLOCK_N
// vec4s of output channels, from DEPTH vec4s of input channels of a tap in shared memory at a time.
//
// w: [block][tap][cg4][BLOCK_N] ivec4s, four input channels the bytes of each integer.
// rows_held: [pixel][DEPTH] words, columns_held: [output channel][DEPTH] words; both STRIDE pairs apart.
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "common/quotients.glsl"
#include "convolution/sums.glsl"

INPUT_X(0, x);
INPUT4W(1, w);
OUTPUT_Y(2, y);

layout(constant_id = 10) const int BLOCK_M = 32;
layout(constant_id = 11) const int BLOCK_N = 8;
// Spatial axes that taps run over, as in conv.comp.
layout(constant_id = 12) const int AXES = 2;
layout(constant_id = 13) const int DEPTH = 8;
layout(constant_id = 14) const int LANES = 64;
layout(constant_id = 15) const int MATRICES_M = 1;  // of a subgroup
layout(constant_id = 16) const int MATRICES_N = 1;

#include "matmul/cooperative_bytes.glsl"
#include "convolution/conv_push.glsl"
#include "convolution/lines.glsl"

const int STRIDE = DEPTH / 2 + 2;
const int SUBGROUPS_M = BLOCK_M / (MATRICES_M * MATRIX_M);
const int HELD_ROWS = BLOCK_M / MATRICES_M, SUM_STRIDE = BLOCK_N + 1;

// A lane reads the same pixels in every step, every APART-th vec4 of channels.
const int PIXELS = BLOCK_M > LANES ? BLOCK_M / LANES : 1;
const int APART = LANES > BLOCK_M ? LANES / BLOCK_M : 1;
const int READS = DEPTH / APART;
const int WEIGHTS = (DEPTH * BLOCK_N + LANES - 1) / LANES;
const int RESULTS = (HELD_ROWS * BLOCK_N + LANES - 1) / LANES;

shared ivec2 rows_held[BLOCK_M * STRIDE];
shared ivec2 columns_held[4 * BLOCK_N * STRIDE];
shared ivec4 sums_held[HELD_ROWS * SUM_STRIDE];

MATRIX_C products[MATRICES_M * MATRICES_N];

ivec3 origin_of(int pixel) {
    if (AXES == 0) return ivec3(pixel, 0, 0);
    int y_ = divide(pixel, p.out_w);
    int z_ = AXES == 3 ? divide(y_, p.out_h) : 0;
    ivec3 at = ivec3(pixel - y_ * p.out_w, y_ - z_ * p.out_h, z_);
    return at * ivec3(p.stride_w, p.stride_h, p.stride_d) - ivec3(p.pad_w, p.pad_h, p.pad_d);
}

int own_row() { return int(gl_SubgroupID) % SUBGROUPS_M * (MATRICES_M * MATRIX_M); }
// In vec4s. There may be more subgroups than have work, where they are smaller than the device says.
int own_column() { return int(gl_SubgroupID) / SUBGROUPS_M * (MATRICES_N * MATRIX_N / 4); }

void multiply_held() {
    int row = own_row(), column = own_column();
    if (column >= BLOCK_N) return;
    [[unroll]] for (int k = 0; k < DEPTH / 2; k += MATRIX_K / 8) {
        MATRIX_A av[MATRICES_M];
        [[unroll]] for (int i = 0; i < MATRICES_M; i++)
            av[i] = LOAD_A(rows_held[(row + i * MATRIX_M) * STRIDE + k], STRIDE);
        [[unroll]] for (int j = 0; j < MATRICES_N; j++) {
            MATRIX_B bv = LOAD_B(columns_held[(4 * column + j * MATRIX_N) * STRIDE + k], STRIDE);
            [[unroll]] for (int i = 0; i < MATRICES_M; i++)
                products[i * MATRICES_N + j] = MULTIPLY(av[i], bv, products[i * MATRICES_N + j]);
        }
    }
}

void main() {
    int id = linear_group();
    if (id >= p.total) return;
    int lane = int(gl_LocalInvocationID.x);
    int block = divide(id, p.tiles);
    int first = (id - block * p.tiles) * BLOCK_M;
    int image = divide(block, p.blocks);
    block -= image * p.blocks;
    int group = divide(block, p.group_blocks);
    int plane = p.in_d * p.in_h * p.in_w;
    int source = (image * p.c4 + group * p.cg4) * plane;
    int own = rest(lane, BLOCK_M), own_k = whole_part(lane, BLOCK_M);
    ivec3 origin[PIXELS];
    [[unroll]] for (int i = 0; i < PIXELS; i++)
        origin[i] = origin_of(min(first + own + i * LANES, p.pixels - 1));
    [[unroll]] for (int i = 0; i < MATRICES_M * MATRICES_N; i++) products[i] = filled(0);
    ZERO_POINT
    ivec3 tap = ivec3(0), kernel = ivec3(p.kernel_w, p.kernel_h, p.kernel_d);
    ivec3 dilation = ivec3(p.dilation_w, p.dilation_h, p.dilation_d);
    int taps = AXES == 0 ? 1 : (AXES == 3 ? kernel.z : 1) * kernel.y * kernel.x;
    int weight = block * (taps * p.cg4 * BLOCK_N);

    [[dont_unroll]] for (int left = taps; left > 0; left--) {
        int place[PIXELS];
        bool inside[PIXELS];
        [[unroll]] for (int i = 0; i < PIXELS; i++) {
            ivec3 at = origin[i] + tap * dilation;
            inside[i] = AXES == 0 || (uint(at.x) < uint(p.in_w) && uint(at.y) < uint(p.in_h));
            if (AXES == 3) inside[i] = inside[i] && uint(at.z) < uint(p.in_d);
            int from = AXES == 0 ? at.x : ((AXES == 3 ? at.z * p.in_h : 0) + at.y) * p.in_w + at.x;
            place[i] = source + (inside[i] ? from : 0);
        }
        tap.x++;
        NEXT_LINE(tap, kernel)
        [[dont_unroll]] for (int c = 0; c < p.cg4; c += DEPTH) {
            // What is behind the last channel is read from a place that is there; its weights are 0.
            HELD_X pixels[READS * PIXELS];
            [[unroll]] for (int s = 0; s < READS; s++)
                [[unroll]] for (int i = 0; i < PIXELS; i++)
                    pixels[s * PIXELS + i] = HOLD_X(x, place[i] + min(c + own_k + s * APART, p.cg4 - 1) * plane);
            ivec4 weights[WEIGHTS];
            [[unroll]] for (int i = 0; i < WEIGHTS; i++) {
                int item = i * LANES + lane, k = c + whole_part(item, BLOCK_N);
                weights[i] = LOAD4(w, weight + min(k, p.cg4 - 1) * BLOCK_N + rest(item, BLOCK_N));
                weights[i] = k < p.cg4 ? weights[i] : ivec4(0);
            }
            barrier();  // all have multiplied what was held before
            [[unroll]] for (int s = 0; s < READS; s++) {
                [[unroll]] for (int i = 0; i < PIXELS; i++) {
                    int v = TAKE_HELD(pixels[s * PIXELS + i]), k = own_k + s * APART;
                    rows_held[(own + i * LANES) * STRIDE + k / 2][k & 1] = inside[i] ? v : OUTSIDE;
                }
            }
            [[unroll]] for (int i = 0; i < WEIGHTS; i++) {
                int item = i * LANES + lane, k = whole_part(item, BLOCK_N);
                int at = 4 * rest(item, BLOCK_N) * STRIDE + k / 2;
                if (k < DEPTH) {
                    [[unroll]] for (int q = 0; q < 4; q++)
                        columns_held[at + q * STRIDE][k & 1] = weights[i][q];
                }
            }
            barrier();
            multiply_held();
        }
        weight += p.cg4 * BLOCK_N;
    }

    // Of each subgroup one row of matrices at a time is handed out by way of shared memory.
    int end = (group + 1) * p.mg4, first_m = group * p.mg4 + (block - group * p.group_blocks) * BLOCK_N;
    [[unroll]] for (int r = 0; r < MATRICES_M; r++) {
        if (r > 0) barrier();
        if (own_column() < BLOCK_N) {
            int row = int(gl_SubgroupID) % SUBGROUPS_M * MATRIX_M;
            [[unroll]] for (int j = 0; j < MATRICES_N; j++)
                STORE_C(sums_held[row * SUM_STRIDE + own_column() + j * MATRIX_N / 4],
                        products[r * MATRICES_N + j], SUM_STRIDE);
        }
        barrier();
        [[dont_unroll]] for (int i = 0; i < RESULTS; i++) {
            int item = i * LANES + lane, row = rest(item, HELD_ROWS), n = whole_part(item, HELD_ROWS);
            int matrix = whole_part(row, MATRIX_M) * MATRICES_M + r;
            int pixel = first + matrix * MATRIX_M + rest(row, MATRIX_M), m = first_m + n;
            if (n < BLOCK_N && pixel < p.pixels && m < end) {
                READ_SETTING(m, p.m4)
                int at = (image * p.m4 + m) * p.pixels + pixel;
                ivec4 sum[1] = ivec4[1](sums_held[row * SUM_STRIDE + n]);
                STORE_Y(y, at, zero_padding_lanes(RESULT(sum, 0, at, m), m, p.channels));
            }
        }
    }
}
