#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1 SHUFFLE=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 SHUFFLE=0,1 HALF=1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 SHUFFLE=0 HALF=1 HALF_SUMS=1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 SHUFFLE=0 HALF=1 DOTS=1,2
#pragma vknn variants ACCESS=0 ELEM=0 SHUFFLE=0 SPLIT=1
#pragma vknn variants ACCESS=0 ELEM=0 SHUFFLE=0 SPLIT=1 HALF=1
#pragma vknn variants ACCESS=0 ELEM=0 SHUFFLE=0 SPLIT=1 HALF=1 HALF_SUMS=1
#pragma vknn variants ACCESS=0 ELEM=0 SHUFFLE=0 SPLIT=1 HALF=1 DOTS=1,2
#pragma vknn variants ACCESS=0 ELEM=0 SHUFFLE=0 SCALED=1
#pragma vknn variants ACCESS=0 ELEM=0 SHUFFLE=0 SCALED=1 HALF=1
#pragma vknn variants ACCESS=0 ELEM=0 SHUFFLE=0 SCALED=1 HALF=1 HALF_SUMS=1
#pragma vknn variants ACCESS=0 ELEM=0 SHUFFLE=0 SCALED=1 HALF=1 DOTS=1,2
#pragma vknn variants ACCESS=0 ELEM=0 SHUFFLE=0 SCALED=1 SPLIT=1
#pragma vknn variants ACCESS=0 ELEM=0 SHUFFLE=0 SCALED=1 SPLIT=1 HALF=1
#pragma vknn variants ACCESS=0 ELEM=0 SHUFFLE=0 SCALED=1 SPLIT=1 HALF=1 HALF_SUMS=1
#pragma vknn variants ACCESS=0 ELEM=0 SHUFFLE=0 SCALED=1 SPLIT=1 HALF=1 DOTS=1,2
#pragma vknn variants ACCESS=0,1,2 ELEM=1 SHUFFLE=0,1 QUANT=1
#pragma vknn variants ACCESS=0,1,2 ELEM=1 SHUFFLE=0,1 QUANT=1 RESIDUAL=1
#pragma vknn variants ACCESS=0,1,2 ELEM=1 SHUFFLE=0,1 QUANT=1 BYTES=1,2
#pragma vknn variants ACCESS=0,1,2 ELEM=1 SHUFFLE=0,1 QUANT=1 BYTES=1,2 RESIDUAL=1
#pragma vknn variants ACCESS=0,1,2 ELEM=1 SHUFFLE=0 QUANT=2,3,4
#pragma vknn variants ACCESS=0,1,2 ELEM=1 SHUFFLE=0 QUANT=3,4 RESIDUAL=1
#pragma vknn variants ACCESS=0,1,2 ELEM=1 SHUFFLE=0 QUANT=3,4 BYTES=1,2
#pragma vknn variants ACCESS=0,1,2 ELEM=1 SHUFFLE=0 QUANT=3,4 BYTES=1,2 RESIDUAL=1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 SHUFFLE=0 FEW=1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 SHUFFLE=0 FEW=1 HALF=1
#pragma vknn variants ACCESS=0,1,2 ELEM=1 SHUFFLE=0 QUANT=2,3,4 FEW=1
#pragma vknn variants ACCESS=0,1,2 ELEM=1 SHUFFLE=0 QUANT=3,4 RESIDUAL=1 FEW=1
#pragma vknn variants ACCESS=0,1,2 ELEM=1 SHUFFLE=0 QUANT=3,4 BYTES=1,2 FEW=1
#pragma vknn variants ACCESS=0,1,2 ELEM=1 SHUFFLE=0 QUANT=3,4 BYTES=1,2 RESIDUAL=1 FEW=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#if SHUFFLE
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#ifdef SPLIT
#extension GL_KHR_shader_subgroup_basic : require
#endif
// Convolution of one to three spatial axes as an implicit matrix product. A lane computes TN pixels
// times TM vec4s of output channels. Groups of whole vec4s of channels are allowed.
//
// x [N, c4, D, H, W] and y [N, m4, D, H, W] in C4. w: [block][tap][cg4][4][TM] vec4s of
// output channels, the 4 for the lanes of an input vec4; then the bias, [block][TM]. A block is TM
// vec4s of output channels of one group.
//
// SHUFFLE: see convolution/products.glsl.
// DOTS: the 4 are for the channels of an output vec4, and w has vec4s of input channels.
// SCALED: see convolution/scale.glsl.
// SPLIT, for images of few pixels on GPUs: the subgroups of a workgroup share out the input channels.
// QUANT: quantized integers, requantized (quantized/sums.glsl, which has the bias too).
// FEW: weights of 4 or 2 bits (convolution/few_bits.glsl), without a bias.
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "convolution/sums.glsl"

INPUT_X(0, x);
INPUT4W(1, w);
OUTPUT_Y(2, y);

layout(constant_id = 10) const int TN = 4;
layout(constant_id = 11) const int TM = 4;
// Spatial axes that taps run over: 2, 3, or 0 where the kernel is one tap and every output pixel
// reads the input pixel of the same number.
layout(constant_id = 12) const int AXES = 2;
#if !SHUFFLE
// vec4s of input channels whose loads stand together, ahead of their products (convolution/rounds.glsl);
// 0: one after the other, in one loop over taps and channels; -1: one vec4 and so a loop over taps alone.
layout(constant_id = 13) const int STEPS = 0;
layout(constant_id = 16) const int PADDING = 0;  // 1: products with padding count (convolution/rounds.glsl)
#endif

#ifdef SPLIT
// Parts of the input channels, and the lanes that each of them has.
layout(constant_id = 14) const int PARTS = 2;
layout(constant_id = 15) const int PART_LANES = 64;
const int SUMS = TN * TM;
shared vec4 joined[(PARTS > 1 ? PARTS - 1 : 1) * SUMS * PART_LANES];
#endif

#include "convolution/conv_push.glsl"
#include "convolution/products.glsl"
#if !SHUFFLE
#include "convolution/rounds.glsl"
#endif

void main() {
    int id = linear_group();
    if (id >= p.total) return;
    int lane = int(gl_LocalInvocationID.x);
#ifdef SPLIT
    // Compilers know that a subgroup's number is the same in all of its lanes, and so load weights once for
    // all of them. Where subgroups are not as they should be, the lanes of the first part add up all.
    int lanes = PART_LANES, size_ = int(gl_SubgroupSize), sharing = max(1, PART_LANES / size_);
    bool whole = PART_LANES % size_ == 0 && int(gl_NumSubgroups) * size_ == PARTS * PART_LANES;
    int part = whole ? int(gl_SubgroupID) / sharing : 0;
    int own_part = whole ? part : lane / PART_LANES;
    lane = whole ? int(gl_SubgroupID) % sharing * size_ + int(gl_SubgroupInvocationID) : lane % PART_LANES;
    // Where channels do not divide evenly, the last parts have fewer of them, or none.
    int share = whole ? (p.cg4 + PARTS - 1) / PARTS : p.cg4;
    int begin = min(part * share, p.cg4), own_channels = min(share, p.cg4 - begin);
#else
    int lanes = int(gl_WorkGroupSize.x);
#endif
    int block = divide(id, p.tiles);
    int first = (id - block * p.tiles) * TN * lanes + lane;
    int image = divide(block, p.blocks);
    block -= image * p.blocks;
    int group = divide(block, p.group_blocks);
    int in_plane = p.in_d * p.in_h * p.in_w;
    int source = (image * p.c4 + group * p.cg4) * in_plane;
#ifdef SCALED
    int scale_place = image * p.c4;
#endif

    ivec3 origin[TN];  // input coordinates of the first tap
    [[unroll]] for (int i = 0; i < TN; i++) {
        int pixel = min(first + i * lanes, p.pixels - 1);
        if (AXES == 0) {
            origin[i] = ivec3(pixel, 0, 0);
        } else {
            int y_ = divide(pixel, p.out_w);
            int z_ = AXES == 3 ? divide(y_, p.out_h) : 0;
            ivec3 at = ivec3(pixel - y_ * p.out_w, y_ - z_ * p.out_h, z_);
            origin[i] = at * ivec3(p.stride_w, p.stride_h, p.stride_d) - ivec3(p.pad_w, p.pad_h, p.pad_d);
        }
    }

    BEGIN_SUMS(sum, partial, p.bias + block * TM)
    ZERO_POINT
#ifdef SPLIT
    if (part > 0) {
        [[unroll]] for (int i = 0; i < SUMS; i++) sum[i] = vec4(0.0);
    }
#endif

    // Read here, not in the loops: CPU drivers read a push constant anew wherever it stands.
    ivec3 kernel = ivec3(p.kernel_w, p.kernel_h, p.kernel_d);
    ivec3 dilation = ivec3(p.dilation_w, p.dilation_h, p.dilation_d);
    ivec3 size = ivec3(p.in_w, p.in_h, p.in_d);
    int cg4 = p.cg4;
    int taps = AXES == 0 ? 1 : (AXES == 3 ? kernel.z : 1) * kernel.y * kernel.x;
    int steps = taps * cg4;
    int weight = block * (steps * WEIGHT_ROWS * TM);
#ifdef SPLIT
    source += begin * in_plane;
#ifdef SCALED
    scale_place += begin;
#endif
    weight += begin * (WEIGHT_ROWS * TM);
    ADD_TAPS(sum, partial, w, weight)
#else
#if !SHUFFLE
    if (STEPS != 0) {
        ADD_TAPS(sum, partial, w, weight)
    } else
#endif
    {
        // One loop over taps and channels, without branches: CPU drivers run the body of a loop once
        // more, masked, and carry every sum through each level of a nest.
        int c = 0;
        ivec3 k = ivec3(0);
        for (int step_ = 0; step_ < steps; step_++) {
            int plane = source + c * in_plane;
            HELD_SCALES(scales, 1, scale_place + c)
            ivec3 shift = k * dilation;
            INPUT_FACTOR a[TN];
            [[unroll]] for (int i = 0; i < TN; i++) {
                ivec3 at = origin[i] + shift;
                if (AXES == 0) {
                    a[i] = scaled(TAKE(LOAD_X(x, plane + at.x)), scales[0]);
                } else {
                    bool inside = uint(at.x) < uint(size.x) && uint(at.y) < uint(size.y);
                    if (AXES == 3) inside = inside && uint(at.z) < uint(size.z);
                    int place = ((AXES == 3 ? at.z * size.y : 0) + at.y) * size.x + at.x;
                    a[i] = TAKE(LOAD_X(x, plane + (inside ? place : 0)));
                    a[i] = inside ? a[i] : OUTSIDE;
                }
            }
            c++;
            if (AXES != 0) { NEXT_TAP(c, cg4, k, kernel) }
            HOLD_WEIGHTS(w, weight)
            ADD_PRODUCTS(sum, partial, a, w, weight)
            weight += WEIGHT_ROWS * TM;
            ADD_PARTIAL_SUMS(sum, partial, TN * TM, step_)
        }
    }
#endif
    ADD_LAST_SUMS(sum, partial, TN * TM)
    ADD_CENTRED(sum, partial, TN, TM)
#ifdef SPLIT
    if (own_part > 0) {
        [[unroll]] for (int i = 0; i < SUMS; i++)
            joined[((own_part - 1) * SUMS + i) * PART_LANES + lane] = sum[i];
    }
    barrier();
    if (own_part > 0) return;
    if (whole) {
        [[unroll]] for (int i = 0; i < SUMS; i++) {
            for (int other = 0; other + 1 < PARTS; other++)
                sum[i] += joined[(other * SUMS + i) * PART_LANES + lane];
        }
    }
#endif

    int m = group * p.mg4 + (block - group * p.group_blocks) * TM;
    int end = (group + 1) * p.mg4;
    // A vec4 of channels a round, for which the sums behind it move up: unrolled, the stores would take
    // CPU drivers longer to compile than all the rest.
    [[dont_unroll]] for (int j = 0; j < TM; j++) {
        READ_SETTING(m + j, p.m4)
        [[unroll]] for (int i = 0; i < TN; i++) {
            int pixel = first + i * lanes;
            if (pixel < p.pixels && m + j < end) {
                int at = (image * p.m4 + m + j) * p.pixels + pixel;
                VEC4 v = RESULT(sum, i * TM, at, m + j);
                STORE_Y(y, at, zero_padding_lanes(v, m + j, p.channels));
            }
        }
        NEXT_SUMS(sum, TN * TM)
    }
}
