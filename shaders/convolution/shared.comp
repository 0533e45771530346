#version 450
#pragma vknn variants ACCESS=0
#pragma vknn variants ACCESS=0 HALF=1
#pragma vknn variants ACCESS=0 HALF=1 HALF_SUMS=1
#pragma vknn variants ACCESS=0 HALF=1 COOPERATIVE=1
#pragma vknn variants ACCESS=0 HALF=1 DOTS=1,2
#pragma vknn variants ACCESS=0 SPLIT_K=1
#pragma vknn variants ACCESS=0 SPLIT_K=1 HALF=1
#pragma vknn variants ACCESS=0 SPLIT_K=1 HALF=1 HALF_SUMS=1
#pragma vknn variants ACCESS=0 SPLIT_K=1 HALF=1 COOPERATIVE=1
#pragma vknn variants ACCESS=0 SPLIT_K=1 HALF=1 DOTS=1,2
#pragma vknn variants ACCESS=0 SCALED=1
#pragma vknn variants ACCESS=0 SCALED=1 HALF=1
#pragma vknn variants ACCESS=0 SCALED=1 HALF=1 HALF_SUMS=1
#pragma vknn variants ACCESS=0 SCALED=1 HALF=1 COOPERATIVE=1
#pragma vknn variants ACCESS=0 SCALED=1 HALF=1 DOTS=1,2
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Convolution as an implicit matrix product, as conv.comp, for GPUs: a workgroup computes a tile of
// pixels and output channels from shared memory (matmul/shared_memory_tiles.glsl).
//
// x, y and w as there; a block of w is as wide as that of a workgroup: TM is BLOCK_N. With DOTS the 4 are
// for the channels of an output vec4, and w has vec4s of input channels. SCALED: see convolution/scale.glsl.
// SPLIT_K: the workgroups of a tile share out k (matmul/split_k.glsl).
#include "common/tensor.glsl"
#include "common/grid.glsl"

INPUT4(0, x);
INPUT4(1, w);
OUTPUT4(2, y);
#ifdef SPLIT_K
#define SPLIT_K_BINDING 3
#define EPILOGUE_BINDING 5
#endif
#include "convolution/scale.glsl"
#define COLUMNS_OF w
#include "matmul/shared_memory_tiles.glsl"
#ifdef SPLIT_K
#include "matmul/split_k.glsl"
#endif

#include "convolution/tap_walk.glsl"

const int WEIGHTS = COLUMNS_IN_MEMORY != 0 ? 0 : 4 * DEPTH * BLOCK_N / LANES;
// Where a lane reads weights in a block, and where it puts pixels and weights.
int weight_at, row_place, weight_place;

WAITING pixels[READS * PIXELS], weights[WEIGHTS > 0 ? WEIGHTS : 1];
#ifdef SCALED
// What its pixels are multiplied by, and where that begins.
vec4 scales[READS];
int scale_at;
#endif

// Reads the tile's part of k behind what was read last, from vec4 number k0 on. What is behind the end
// is read from a place that is there.
void read_tile(int lane, int k0, int step, int steps, int plane, int weight) {
    if (WHOLE != 0) step_pixels(step, plane);
    [[unroll]] for (int s = 0; s < READS; s++) {
        int end = (steps - 1) * plane;
#ifdef SCALED
        scales[s] = LOAD4(scale, scale_at + min(k0 + whole_part(lane, BLOCK_M) + s * STEP, steps - 1));
#endif
        [[unroll]] for (int i = 0; i < PIXELS; i++) {
            int own = s * PIXELS + i;
            if (TAP_ROW != 0) {
                pixels[own] = waiting(FACTOR(LOAD4(x, next[own])));
            } else if (WHOLE != 0) {
                pixels[own] = waiting(FACTOR(LOAD4(x, next[i] + s * STEP * plane)));
            } else if (AXES == 0) {
                pixels[own] = waiting(FACTOR(LOAD4(x, place[i] + min(distance, end))));
            } else {
                inside[own] = is_inside(origin[i] + tap) && k < steps;
                pixels[own] = waiting(FACTOR(LOAD4(x, inside[own] ? place[i] + distance : 0)));
            }
        }
        if (WHOLE == 0) distance += STEP * plane;
        if (WHOLE == 0 && AXES != 0) {
            k += STEP;
            channel4 += STEP;
            find_tap(plane);
        }
    }
    int end = 4 * steps * BLOCK_N - 1, first = 4 * k0 * BLOCK_N;
    [[unroll]] for (int i = 0; i < WEIGHTS; i++) {
        int at = column_row(i * LANES) * BLOCK_N + column_vec4(i * LANES) + weight_at;
        weights[i] = waiting(FACTOR(LOAD4(w, weight + (WHOLE != 0 ? at + first : min(first + at, end)))));
    }
}

// 1: zeros for padding are stored over pixels in place of being chosen for each. Not of float32, whose products keep
// shared memory busier than lanes.
#if defined(HALF_SUMS) || defined(COOPERATIVE) || defined(DOTS)
#define ZEROS_OVER WHOLE
#else
#define ZEROS_OVER 0
#endif

// Puts what was read into shared memory, with zeros for what is outside of the input and behind the end.
void hold_tile(int lane, int k0, int steps) {
    int first = whole_part(lane, BLOCK_M);
    if (WHOLE == 0 && k0 + DEPTH > steps) {
        [[unroll]] for (int i = 0; i < WEIGHTS; i++) {
            if (k0 + whole_part(i * LANES + lane, 4 * BLOCK_N) >= steps) weights[i] = WAITING(0);
        }
        if (AXES == 0) {
            [[unroll]] for (int s = 0; s < READS; s++) {
                [[unroll]] for (int i = 0; i < PIXELS; i++)
                    if (k0 + first + s * STEP >= steps) pixels[s * PIXELS + i] = WAITING(0);
#ifdef SCALED
                if (k0 + first + s * STEP >= steps) scales[s] = vec4(0.0);
#endif
            }
        }
    }
    [[unroll]] for (int s = 0; s < READS; s++) {
        [[unroll]] for (int i = 0; i < PIXELS; i++) {
            WAITING v = pixels[s * PIXELS + i];
#ifdef SCALED
            v = waiting(FACTOR(scaled(vec4(arrived(v)), scales[s])));
#endif
            if (AXES != 0 && ZEROS_OVER == 0) v = inside[ONE_TAP ? i : s * PIXELS + i] ? v : WAITING(0);
            rows_held[row_place + i * LANES * A_STRIDE + s * STEP] = arrived(v);
        }
    }
    [[unroll]] for (int i = 0; i < WEIGHTS; i++)
        columns_held[column_place(i * LANES) + weight_place] = arrived(weights[i]);
    // Most subgroups have no pixel outside, and go past this.
    if (AXES != 0 && ZEROS_OVER != 0 && OUTSIDE != 0) {
        [[unroll]] for (int i = 0; i < PIXELS; i++) {
            bool all = true;
            [[unroll]] for (int s = 0; s < READS; s++) all = all && inside[ONE_TAP ? i : s * PIXELS + i];
            if (!all) {
                [[unroll]] for (int s = 0; s < READS; s++) {
                    if (ONE_TAP || !inside[s * PIXELS + i])
                        rows_held[row_place + i * LANES * A_STRIDE + s * STEP] = FACTOR(0.0);
                }
            }
        }
    }
}

// The bias, of one part of k.
void begin_sums(int bias, bool has_bias) {
    [[unroll]] for (int j = 0; j < COLS; j++) {
        vec4 b = LOAD4(w, bias + j * LANES_N);
        if (!has_bias) b = vec4(0.0);
        [[unroll]] for (int i = 0; i < ROWS; i++) sums[i * COLS + j] = b;
    }
}

void main() {
    int id = linear_group();
    if (id >= p.total) return;
    int lane = int(gl_LocalInvocationID.x);
#ifdef SPLIT_K
    int part = rest(id, K_PARTS);
    id = whole_part(id, K_PARTS);
    int tile = id;
#endif
    // Lanes beside each other have pixels beside each other: they are stored so.
    int m_ = rest(lane, LANES_M), n_ = whole_part(lane, LANES_M);
    int block = divide(id, p.tiles);
    int first = (id - block * p.tiles) * BLOCK_M;
    int image = divide(block, p.blocks);
    block -= image * p.blocks;
    int group = divide(block, p.group_blocks);
    int plane = p.in_d * p.in_h * p.in_w;
    int source = (image * p.c4 + group * p.cg4) * plane;
#ifdef SCALED
    scale_at = image * p.c4;
#endif
    int taps = AXES == 0 ? 1 : (AXES == 3 ? p.kernel_d : 1) * p.kernel_h * p.kernel_w;
    int steps = taps * p.cg4;
    if (TAP_ROW != 0) steps = divide(p.kernel_h + ROUND_ROWS - 1, ROUND_ROWS) * ROUND_ROWS * TAP_ROW;
    int weight = block * (steps * 4 * BLOCK_N);
    int begin_k = 0, end_k = steps;
#ifdef SPLIT_K
    int share = part_of_k(steps);
    begin_k = part * share;
    end_k = min(begin_k + share, steps);
#endif

    [[unroll]] for (int i = 0; i < PIXELS; i++) {
        origin[i] = origin_of(min(first + rest(lane, BLOCK_M) + i * LANES, p.pixels - 1));
        place[i] = source + (AXES == 0 ? origin[i].x : (origin[i].z * p.in_h + origin[i].y) * p.in_w + origin[i].x);
    }
    int own4 = whole_part(lane, BLOCK_M);
    row_place = rest(lane, BLOCK_M) * A_STRIDE + own4;
    weight_at = column_row(lane) * BLOCK_N + column_vec4(lane);
    weight_place = column_place(lane);
    if (TAP_ROW != 0) {
        own_tap = ivec2(rest(own4, ROW_TAPS), whole_part(own4, ROW_TAPS) * p.dilation_h);
        [[unroll]] for (int i = 0; i < PIXELS; i++) {
            origin[i] += ivec3(own_tap, 0);
            place[i] += own_tap.y * p.in_w + own_tap.x;
        }
#ifdef SPLIT_K
        find_beginning(begin_k);
#endif
        // The first step is to the beginning.
        tap -= TAP_ROW > DEPTH ? ivec3(DEPTH, 0, 0) : ivec3(0, ROUND_ROWS * p.dilation_h, 0);
    } else if (WHOLE != 0) {
        [[unroll]] for (int i = 0; i < PIXELS; i++) place[i] += own4 * plane;
#ifdef SPLIT_K
        find_beginning(begin_k);
#endif
        // The first step is to the beginning.
        if (ONE_ROUND != 0) {
            tap.x -= p.dilation_w;
        } else {
            find_pixels();
            channel4 -= DEPTH;
            [[unroll]] for (int i = 0; i < PIXELS; i++) next[i] += channel4 * plane;
        }
    } else {
#ifdef SPLIT_K
        find_beginning(begin_k);
#endif
        k = begin_k + own4;
        channel4 += own4;
        distance += channel4 * plane;
        if (AXES != 0) find_tap(plane);
    }
#ifdef SPLIT_K
    bool has_bias = part == 0;
#else
    bool has_bias = true;
#endif
    int bias = p.bias + block * BLOCK_N + n_;
#ifndef COOPERATIVE
    begin_sums(bias, has_bias);
#endif

    begin_products(weight + 4 * begin_k * BLOCK_N);
    int k0 = begin_k;
#ifdef SPLIT_K
    // A part may have nothing.
    if (k0 < end_k) {
#endif
    if (AHEAD != 0) {
        read_tile(lane, k0, DEPTH, steps, plane, weight);
        hold_tile(lane, k0, steps);
    }
    do {
        if (AHEAD == 0) {
            read_tile(lane, k0, DEPTH, steps, plane, weight);
            hold_tile(lane, k0, steps);
        }
#ifdef COOPERATIVE
        if (COLUMNS_IN_MEMORY != 0) read_columns();
#endif
        barrier();
        k0 += DEPTH;
        bool reads = AHEAD == 2 || AHEAD != 0 && k0 < end_k;
        int ahead = WHOLE != 0 ? min(k0, end_k - DEPTH) : k0;
        if (reads) read_tile(lane, ahead, k0 < end_k ? DEPTH : 0, steps, plane, weight);
        multiply_held(m_, n_);
        barrier();
        if (reads) hold_tile(lane, k0, steps);
    } while (k0 < end_k);
#ifdef SPLIT_K
    }
#endif
#ifdef COOPERATIVE
    // Products are elsewhere so far: no register holds these before.
    begin_sums(bias, has_bias);
#endif
    end_products(m_, n_);
#ifdef SPLIT_K
    if (!has_all_sums(tile, part, lane)) return;
#endif

    int m = group * p.mg4 + (block - group * p.group_blocks) * BLOCK_N + n_;
    int end = (group + 1) * p.mg4;
    [[dont_unroll]] for (int n = 0; n < ROWS * COLS; n += STORED) {
        [[unroll]] for (int s = 0; s < STORED; s++) {
            int pixel = first + m_ + whole_part(n + s, COLS) * LANES_M, channel = m + rest(n + s, COLS) * LANES_N;
            if (pixel < p.pixels && channel < end) {
                int at = (image * p.m4 + channel) * p.pixels + pixel;
                vec4 v = END(sums[s], at, channel);
                STORE4(y, at, zero_padding_lanes(v, channel, p.channels));
            }
        }
        next_sums();
    }
}
