#version 450
#pragma vknn variants ACCESS=0
#pragma vknn variants ACCESS=0 HALF=1
#pragma vknn variants ACCESS=0 HALF=1 HALF_SUMS=1
#pragma vknn variants ACCESS=0 HALF=1 COOPERATIVE=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Convolution as an implicit matrix product, as conv.comp, for GPUs: a workgroup computes a tile of
// pixels and output channels from shared memory (matmul/shared_memory_tiles.glsl).
//
// x, y and w as there; a block of w is as wide as that of a workgroup: TM is BLOCK_N.
#include "common/tensor.glsl"
#include "common/grid.glsl"

INPUT4(0, x);
INPUT4(1, w);
OUTPUT4(2, y);
#define EPILOGUE_BINDING 3
#include "common/epilogue.glsl"
#include "matmul/shared_memory_tiles.glsl"

// Spatial axes that taps run over: 2, 3, or 0 where the kernel is one tap and every output pixel
// reads the input pixel of the same number.
layout(constant_id = 17) const int AXES = 2;

// A lane brings the same pixels in every step: PIXELS of them, every STEP-th vec4 of k.
const int PIXELS = BLOCK_M > LANES ? BLOCK_M / LANES : 1;
const int STEP = LANES > BLOCK_M ? LANES / BLOCK_M : 1;
const int WEIGHTS = 4 * DEPTH * BLOCK_N / LANES;

#include "convolution/conv_push.glsl"

// Input coordinates of an output pixel's first tap; with AXES 0 the pixel itself.
ivec3 origin_of(int pixel) {
    if (AXES == 0) return ivec3(pixel, 0, 0);
    int y_ = divide(pixel, p.out_w);
    int z_ = AXES == 3 ? divide(y_, p.out_h) : 0;
    ivec3 at = ivec3(pixel - y_ * p.out_w, y_ - z_ * p.out_h, z_);
    return at * ivec3(p.stride_w, p.stride_h, p.stride_d) - ivec3(p.pad_w, p.pad_h, p.pad_d);
}

// The input's vec4 number `step_` along k (taps, then channels) for a pixel.
vec4 bring_pixel(ivec3 origin, int step_, int source, int plane) {
    if (AXES == 0) return LOAD4(x, source + step_ * plane + origin.x);
    int tap = divide(step_, p.cg4);
    int c = step_ - tap * p.cg4;
    int ky = divide(tap, p.kernel_w);
    int kz = AXES == 3 ? divide(ky, p.kernel_h) : 0;
    ivec3 k = ivec3(tap - ky * p.kernel_w, ky - kz * p.kernel_h, kz);
    ivec3 at = origin + k * ivec3(p.dilation_w, p.dilation_h, p.dilation_d);
    bool inside = uint(at.x) < uint(p.in_w) && uint(at.y) < uint(p.in_h);
    if (AXES == 3) inside = inside && uint(at.z) < uint(p.in_d);
    int place = ((AXES == 3 ? at.z * p.in_h : 0) + at.y) * p.in_w + at.x;
    vec4 v = vec4(0.0);
    if (inside) v = LOAD4(x, source + c * plane + place);
    return v;
}

void main() {
    int id = linear_group();
    if (id >= p.total) return;
    int lane = int(gl_LocalInvocationID.x);
    // Lanes beside each other have pixels beside each other: they are stored so.
    int m_ = lane % LANES_M, n_ = lane / LANES_M;
    int block = divide(id, p.tiles);
    int first = (id - block * p.tiles) * BLOCK_M;
    int image = divide(block, p.blocks);
    block -= image * p.blocks;
    int group = divide(block, p.group_blocks);
    int plane = p.in_d * p.in_h * p.in_w;
    int source = (image * p.c4 + group * p.cg4) * plane;
    int taps = AXES == 0 ? 1 : (AXES == 3 ? p.kernel_d : 1) * p.kernel_h * p.kernel_w;
    int steps = taps * p.cg4;
    int weight = block * (steps * 4 * BLOCK_N);

    ivec3 origin[PIXELS];
    [[unroll]] for (int i = 0; i < PIXELS; i++)
        origin[i] = origin_of(min(first + lane % BLOCK_M + i * LANES, p.pixels - 1));
    [[unroll]] for (int j = 0; j < COLS; j++) {
        vec4 b = LOAD4(w, p.bias + block * BLOCK_N + n_ + j * LANES_N);
        [[unroll]] for (int i = 0; i < ROWS; i++) sums[i * COLS + j] = b;
    }

    begin_products();
    for (int k0 = 0; k0 < steps; k0 += DEPTH) {
        [[unroll]] for (int s = 0; s < DEPTH; s += STEP) {
            int k = lane / BLOCK_M + s;
            [[unroll]] for (int i = 0; i < PIXELS; i++) {
                vec4 v = vec4(0.0);
                if (k0 + k < steps) v = bring_pixel(origin[i], k0 + k, source, plane);
                rows_held[(lane % BLOCK_M + i * LANES) * A_STRIDE + k] = FACTOR(v);
            }
        }
        [[unroll]] for (int i = 0; i < WEIGHTS; i++) {
            int own = i * LANES + lane;
            int row = own / BLOCK_N;
            vec4 v = vec4(0.0);
            if (k0 + row / 4 < steps) v = LOAD4(w, weight + 4 * k0 * BLOCK_N + own);
            columns_held[row * B_STRIDE + own % BLOCK_N] = FACTOR(v);
        }
        barrier();
        multiply_held(m_, n_);
        barrier();
    }
    end_products(m_, n_);

    int m = group * p.mg4 + (block - group * p.group_blocks) * BLOCK_N + n_;
    int end = (group + 1) * p.mg4;
    [[unroll]] for (int j = 0; j < COLS; j++) {
        int channel = m + j * LANES_N;
        [[unroll]] for (int i = 0; i < ROWS; i++) {
            int pixel = first + m_ + i * LANES_M;
            if (pixel < p.pixels && channel < end) {
                int at = (image * p.m4 + channel) * p.pixels + pixel;
                vec4 v = epilogue4(sums[i * COLS + j], at, channel);
                STORE4(y, at, zero_padding_lanes(v, channel, p.channels));
            }
        }
    }
}
