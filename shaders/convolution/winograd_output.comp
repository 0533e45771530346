#version 450
#pragma vknn variants ACCESS=0,1,2 TILE=2,4
#pragma vknn variants ACCESS=0,1,2 TILE=2,4 HALF=1
#pragma vknn variants ACCESS=0 TILE=2,4 LINES=1
#pragma vknn variants ACCESS=0 TILE=2,4 LINES=1 HALF=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Winograd's last step: A^T m A of each tile of products, bias and epilogue. A lane has one tile and one
// vec4 of channels.
//
// LINES, for GPUs: a lane has one line of a tile, a column of the products and then a row of pixels,
// handed over through shared memory, as in winograd_input.comp. With HALF the products are float16,
// scaled; else, and with BF16, they are float32.
//
// product: [place in the tile][m4][tile], tiles in the order (image, row, column). bias [m4].
// y [N, m4, H, W] in C4.
#include "common/tensor.glsl"
#include "common/grid.glsl"

#if LINES && !BF16
INPUT4F(0, product);
#else
INPUT4S(0, product);
#endif
INPUT4F(1, bias);
OUTPUT4F(2, y);
#define EPILOGUE_BINDING 3
#include "common/epilogue.glsl"
#include "convolution/winograd.glsl"

layout(push_constant) uniform P {
    int total, tiles;              // lanes; tiles of all images
    int tiles_image, tiles_w;      // tiles of an image, of a row
    int m4, out_h, out_w;
    int channels;
    int place_step;                // vec4s of product from place to place
} p;

#if LINES
layout(constant_id = 10) const int HELD = 16;  // tiles of a workgroup, which has SIDE lanes for each
shared vec4 half_way[TILE * SIDE * HELD];
#endif

// A tile's row of pixels from the products transformed along the columns; names as in main.
#define STORE_ROW(d, row_) \
    TRANSFORM_OUTPUT(d) \
    [[unroll]] for (int j = 0; j < TILE; j++) { \
        if (origin.x + j < size.x && origin.y + (row_) < size.y) { \
            int at = first + (row_) * size.x + j; \
            STORE4(y, at, zero_padding_lanes(epilogue4(UNSCALED(d[j]) + b, at, m), m, channels)); \
        } \
    }

void main() {
#if LINES
    int lane = int(gl_LocalInvocationID.x);
    int line = lane / HELD, own = lane - line * HELD;
    int group_first = linear_group() * HELD;
    if (group_first >= p.total) return;
    bool stored = group_first + own < p.total && line < TILE;
    int id = min(group_first + own, p.total - 1);
#else
    int id = linear_lane();
    if (id >= p.total) return;
#endif
    int m = divide(id, p.tiles);
    int tile = id - m * p.tiles;
    int image = divide(tile, p.tiles_image);
    tile -= image * p.tiles_image;
    int row = divide(tile, p.tiles_w);
    ivec2 size = ivec2(p.out_w, p.out_h);
    ivec2 origin = ivec2(tile - row * p.tiles_w, row) * TILE;
    int step_ = p.place_step, channels = p.channels;

#if LINES
    vec4 b = LOAD4(bias, m);
    int first = ((image * p.m4 + m) * size.y + origin.y) * size.x + origin.x;
    vec4 d[SIDE];
    [[unroll]] for (int i = 0; i < SIDE; i++) d[i] = LOAD4(product, (i * SIDE + line) * step_ + id);
    TRANSFORM_OUTPUT(d)
    [[unroll]] for (int i = 0; i < TILE; i++) half_way[(i * SIDE + line) * HELD + own] = d[i];
    barrier();
    if (!stored) return;
    [[unroll]] for (int j = 0; j < SIDE; j++) d[j] = half_way[(line * SIDE + j) * HELD + own];
    STORE_ROW(d, line)
#else
    vec4 half_way[TILE * SIDE];
    [[unroll]] for (int j = 0; j < SIDE; j++) {
        vec4 d[SIDE];
        [[unroll]] for (int i = 0; i < SIDE; i++) d[i] = LOAD4(product, (i * SIDE + j) * step_ + id);
        TRANSFORM_OUTPUT(d)
        [[unroll]] for (int i = 0; i < TILE; i++) half_way[i * SIDE + j] = d[i];
    }
    vec4 b = LOAD4(bias, m);
    int first = ((image * p.m4 + m) * size.y + origin.y) * size.x + origin.x;
    [[unroll]] for (int i = 0; i < TILE; i++) {
        vec4 d[SIDE];
        [[unroll]] for (int j = 0; j < SIDE; j++) d[j] = half_way[i * SIDE + j];
        STORE_ROW(d, i)
    }
#endif
}
