#version 450
#pragma vknn variants ACCESS=0
#pragma vknn variants ACCESS=0 HALF=1
#pragma vknn variants ACCESS=0 HALF=1 HALF_SUMS=1
#pragma vknn variants ACCESS=0 HALF=1 COOPERATIVE=1
#pragma vknn variants ACCESS=0 HALF=1 DOTS=1,2
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// A depthwise convolution of two axes and the convolution of one tap behind it, for GPUs:
// y = f(B g(A x + a) + b). As convolution/shared.comp, but the rows that a workgroup holds are results
// of the depthwise convolution, which its lanes compute on the way; each workgroup of a tile of pixels
// computes them anew.
//
// x [N, c4, H, W] and y [N, m4, out H, out W] in C4. w: B and b as there, A [c4][tap], a [c4].
#include "common/tensor.glsl"
#include "common/grid.glsl"

INPUT4(0, x);
INPUT4(1, w);
OUTPUT4(2, y);
#define EPILOGUE_BINDING 3
#include "common/epilogue.glsl"
#include "chain/steps.glsl"
#include "matmul/shared_memory_tiles.glsl"

layout(constant_id = 17) const int KERNEL_H = 3;
layout(constant_id = 18) const int KERNEL_W = 3;
// 1: the taps of a row of the kernel are read together, else all of them.
layout(constant_id = 31) const int BY_ROWS = 0;
const int TAPS = KERNEL_H * KERNEL_W;

// A lane computes all rows of one pixel: every STEP-th vec4 of k.
const int STEP = LANES / BLOCK_M;
const int READS = DEPTH / STEP;
const int WEIGHTS = 4 * DEPTH * BLOCK_N / LANES;

layout(push_constant) uniform P {
    int pixels, tiles, total;  // of an image; tiles of them; workgroups
    int c4, m4, blocks;        // vec4s of channels of x and y, blocks of y's
    int channels_in, channels;
    int in_h, in_w, out_w;
    int stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w;
    int bias, depthwise, depthwise_bias;  // where b, A and a begin
} p;

// Where a lane's pixel is read under each tap, in a plane of x, and whether that is inside; else its place is 0.
// With BY_ROWS only where it is read under the first.
int place[BY_ROWS != 0 ? 1 : TAPS];
bool inside[BY_ROWS != 0 ? 1 : TAPS];
int top, left;

void find_places(int pixel) {
    int out_y = divide(pixel, p.out_w);
    top = out_y * p.stride_h - p.pad_h;
    left = (pixel - out_y * p.out_w) * p.stride_w - p.pad_w;
    if (BY_ROWS != 0) return;
    [[unroll]] for (int ky = 0; ky < KERNEL_H; ky++) {
        [[unroll]] for (int kx = 0; kx < KERNEL_W; kx++) {
            ivec2 at = ivec2(left + kx * p.dilation_w, top + ky * p.dilation_h);
            int t = ky * KERNEL_W + kx;
            inside[t] = uint(at.x) < uint(p.in_w) && uint(at.y) < uint(p.in_h);
            place[t] = inside[t] ? at.y * p.in_w + at.x : 0;
        }
    }
}

// What is read under a tap, until it is known whether that is inside: in words where values are float16, of
// which two take the place of four numbers.
#ifdef DOTS
#define READ uvec2
uvec2 read_words(vec4 v) {
    f16vec4 h = f16vec4(v);
    return uvec2(packFloat2x16(h.xy), packFloat2x16(h.zw));
}
vec4 of_words(uvec2 v) { return vec4(unpackFloat2x16(v.x), unpackFloat2x16(v.y)); }
#else
#define READ vec4
#define read_words(v) v
#define of_words(v) v
#endif

// The sum `v` and the products of all taps, of vec4 c of channels.
vec4 with_taps(int plane, int c, vec4 v) {
    READ values[TAPS];
    [[unroll]] for (int t = 0; t < TAPS; t++) values[t] = read_words(LOAD4(x, plane + place[t]));
    [[unroll]] for (int t = 0; t < TAPS; t++)
        v = fma(of_words(inside[t] ? values[t] : READ(0)), LOAD4(w, p.depthwise + c * TAPS + t), v);
    return v;
}

// The same, row by row: of large kernels registers do not hold what is read under all taps.
vec4 with_rows(int plane, int c, vec4 v) {
    [[dont_unroll]] for (int ky = 0; ky < KERNEL_H; ky++) {
        int y_ = top + ky * p.dilation_h, weight = p.depthwise + c * TAPS + ky * KERNEL_W;
        bool row_inside = uint(y_) < uint(p.in_h);
        READ values[KERNEL_W];
        bool here[KERNEL_W];
        [[unroll]] for (int kx = 0; kx < KERNEL_W; kx++) {
            int x_ = left + kx * p.dilation_w;
            here[kx] = row_inside && uint(x_) < uint(p.in_w);
            values[kx] = read_words(LOAD4(x, plane + (here[kx] ? y_ * p.in_w + x_ : 0)));
        }
        [[unroll]] for (int kx = 0; kx < KERNEL_W; kx++)
            v = fma(of_words(here[kx] ? values[kx] : READ(0)), LOAD4(w, weight + kx), v);
    }
    return v;
}

// A vec4 of channels of the depthwise convolution; 0 behind the last.
vec4 depthwise_at(int image, int k) {
    int c = min(k, p.c4 - 1);
    int plane = (image * p.c4 + c) * (p.in_h * p.in_w);
    vec4 v = LOAD4(w, p.depthwise_bias + c);
    if (BY_ROWS != 0) v = with_rows(plane, c, v);
    else v = with_taps(plane, c, v);
    v = zero_padding_lanes(g(v), c, p.channels_in);
    return k < p.c4 ? v : vec4(0.0);
}

void main() {
    int id = linear_group();
    if (id >= p.total) return;
    int lane = int(gl_LocalInvocationID.x);
    int m_ = rest(lane, LANES_M), n_ = whole_part(lane, LANES_M);
    // Blocks of the same pixels stand beside each other: they read the same x.
    int tile = divide(id, p.blocks);
    int block = id - tile * p.blocks;
    int image = divide(tile, p.tiles);
    int first = (tile - image * p.tiles) * BLOCK_M;
    int weight = block * (p.c4 * 4 * BLOCK_N), weight_end = p.c4 * 4 * BLOCK_N - 1;
    int row = rest(lane, BLOCK_M), own = whole_part(lane, BLOCK_M);

    find_places(min(first + row, p.pixels - 1));
    [[unroll]] for (int j = 0; j < COLS; j++) {
        vec4 b = LOAD4(w, p.bias + block * BLOCK_N + n_ + j * LANES_N);
        [[unroll]] for (int i = 0; i < ROWS; i++) sums[i * COLS + j] = b;
    }

    begin_products(0);
    for (int k0 = 0; k0 < p.c4; k0 += DEPTH) {
        FACTOR weights[WEIGHTS];
        [[unroll]] for (int i = 0; i < WEIGHTS; i++)
            weights[i] = FACTOR(LOAD4(w, weight + min(4 * k0 * BLOCK_N + i * LANES + lane, weight_end)));
        [[unroll]] for (int s = 0; s < READS; s++) {
            int k = own + s * STEP;
            rows_held[row * A_STRIDE + k] = FACTOR(depthwise_at(image, k0 + k));
        }
        [[unroll]] for (int i = 0; i < WEIGHTS; i++) {
            int at = i * LANES + lane, k = whole_part(at, BLOCK_N);
            bool behind = k0 + whole_part(k, 4) >= p.c4;
            columns_held[k * B_STRIDE + rest(at, BLOCK_N)] = behind ? FACTOR(0.0) : weights[i];
        }
        barrier();
        multiply_held(m_, n_);
        barrier();
    }
    end_products(m_, n_);

    [[dont_unroll]] for (int n = 0; n < ROWS * COLS; n += STORED) {
        [[unroll]] for (int s = 0; s < STORED; s++) {
            int pixel = first + m_ + whole_part(n + s, COLS) * LANES_M;
            int channel = block * BLOCK_N + n_ + rest(n + s, COLS) * LANES_N;
            if (pixel < p.pixels && channel < p.m4) {
                int at = (image * p.m4 + channel) * p.pixels + pixel;
                vec4 v = f(sums[s], at, channel);
                STORE4(y, at, zero_padding_lanes(v, channel, p.channels));
            }
        }
        next_sums();
    }
}
