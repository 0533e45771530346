#version 450
#pragma vknn variants ACCESS=0
#pragma vknn variants ACCESS=0 HALF=1
#pragma vknn variants ACCESS=0 HALF=1 HALF_SUMS=1
#pragma vknn variants ACCESS=0 HALF=1 DOTS=1,2
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// A convolution of one tap and the depthwise convolution of two axes behind it, for GPUs:
// y = f(A g(B x + b) + a). A workgroup computes TM vec4s of channels of a tile of y: first of the field of
// pixels that the tile's windows reach the result of the convolution of one tap, into shared memory, a
// lane TN pixels as in convolution/conv.comp. Fields of neighbouring tiles overlap; the pixels where
// they do are computed more than once. A field lies in the image as a whole.
//
// x [N, c4, H, W] and y [N, m4, out H, out W] in C4. w: B and b as there, A [m4][tap], a [m4].
#define ELEM 0
#define SHUFFLE 0
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "convolution/sums.glsl"
#include "chain/steps.glsl"

INPUT4(0, x);
INPUT4W(1, w);
OUTPUT4(2, y);

layout(constant_id = 10) const int TN = 2;
layout(constant_id = 11) const int TM = 2;
layout(constant_id = 13) const int STEPS = 1;  // as in convolution/rounds.glsl, but not 0
layout(constant_id = 14) const int TILE_H = 4;
layout(constant_id = 15) const int TILE_W = 4;
layout(constant_id = 16) const int FIELD_H = 6;
layout(constant_id = 17) const int FIELD_W = 6;
layout(constant_id = 18) const int KERNEL_H = 3;
layout(constant_id = 19) const int KERNEL_W = 3;
layout(constant_id = 20) const int ROUNDS = 1;  // in which the lanes compute a tile of y
const int AXES = 0, PADDING = 0;
const int TAPS = KERNEL_H * KERNEL_W;
const int FIELD = FIELD_H * FIELD_W;

layout(push_constant) uniform P {
    int tiles_w, tiles, total;  // in a row and in an image; workgroups
    int c4, m4, blocks;         // vec4s of channels of x and y, blocks of y's
    int channels;               // of y
    int in_h, in_w, out_h, out_w;
    int stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w;
    int bias, depthwise, depthwise_bias;  // where b, A and a begin
} p;

#include "convolution/products.glsl"
#include "convolution/rounds.glsl"

// Of each vec4 of channels the field, then a 0 for what is outside of the image.
const int HELD = FIELD + 1;
shared vec4 held[TM * HELD];

// Holds g(B x + b) of a block of channels of the field that begins at `begin`.
void hold_field(int image, int block, ivec2 begin) {
    int lane = int(gl_LocalInvocationID.x), lanes = int(gl_WorkGroupSize.x);
    ivec3 origin[TN];
    [[unroll]] for (int i = 0; i < TN; i++) {
        uint pixel = uint(min(lane + i * lanes, FIELD - 1));
        ivec2 at = begin + ivec2(pixel % uint(FIELD_W), pixel / uint(FIELD_W));
        origin[i] = ivec3(at.y * p.in_w + at.x, 0, 0);
    }
    BEGIN_SUMS(sum, partial, p.bias + block * TM)
    int in_plane = p.in_h * p.in_w, cg4 = p.c4, taps = 1;
    int source = image * cg4 * in_plane;
    int weight = block * (cg4 * WEIGHT_ROWS * TM);
    ivec3 kernel = ivec3(1), dilation = ivec3(1), size = ivec3(1);
    ADD_TAPS(sum, partial, w, weight)
    ADD_LAST_SUMS(sum, partial, TN * TM)
    [[unroll]] for (int i = 0; i < TN; i++) {
        int pixel = lane + i * lanes;
        if (pixel < FIELD)
            [[unroll]] for (int j = 0; j < TM; j++) held[j * HELD + pixel] = g(sum[i * TM + j]);
    }
    if (lane < TM) held[lane * HELD + FIELD] = vec4(0.0);
}

// What a pixel of y reads under each tap: its place in the field, FIELD outside of the image.
int place[TAPS];

void find_places(ivec2 corner, ivec2 begin) {
    [[unroll]] for (int t = 0; t < TAPS; t++) {
        ivec2 at = corner + ivec2(t % KERNEL_W * p.dilation_w, t / KERNEL_W * p.dilation_h);
        bool inside = uint(at.x) < uint(p.in_w) && uint(at.y) < uint(p.in_h);
        place[t] = inside ? (at.y - begin.y) * FIELD_W + at.x - begin.x : FIELD;
    }
}

// A vec4 of channels of a pixel of y, which is at `from` in its image's first.
void store_depthwise(int j, int c, int from) {
    vec4 v = LOAD4(w, p.depthwise_bias + c);
    [[unroll]] for (int t = 0; t < TAPS; t++)
        v = fma(held[j * HELD + place[t]], LOAD4(w, p.depthwise + c * TAPS + t), v);
    int to = from + c * (p.out_h * p.out_w);
    STORE4(y, to, zero_padding_lanes(f(v, to, c), c, p.channels));
}

void main() {
    int id = linear_group();
    if (id >= p.total) return;
    int lane = int(gl_LocalInvocationID.x), lanes = int(gl_WorkGroupSize.x);
    // Blocks of the same pixels stand beside each other: they read the same x.
    int tile = divide(id, p.blocks);
    int block = id - tile * p.blocks;
    int image = divide(tile, p.tiles);
    tile -= image * p.tiles;
    int line = divide(tile, p.tiles_w);
    ivec2 first = ivec2((tile - line * p.tiles_w) * TILE_W, line * TILE_H);
    ivec2 stride = ivec2(p.stride_w, p.stride_h), pad = ivec2(p.pad_w, p.pad_h);
    ivec2 begin = clamp(first * stride - pad, ivec2(0), ivec2(p.in_w - FIELD_W, p.in_h - FIELD_H));

    hold_field(image, block, begin);
    barrier();

    [[unroll]] for (int r = 0; r < ROUNDS; r++) {
        int i = lane + r * lanes;
        ivec2 at = first + ivec2(uint(i) % uint(TILE_W), uint(i) / uint(TILE_W));
        if (i < TILE_H * TILE_W && at.x < p.out_w && at.y < p.out_h) {
            find_places(at * stride - pad, begin);
            int from = image * p.m4 * (p.out_h * p.out_w) + at.y * p.out_w + at.x;
            [[unroll]] for (int j = 0; j < TM; j++)
                if (block * TM + j < p.m4) store_depthwise(j, block * TM + j, from);
        }
    }
}
