#version 450
#pragma vknn variants ACCESS=0,1,2 TILE=2,4
#pragma vknn variants ACCESS=0,1,2 TILE=2,4 HALF=1
#pragma vknn variants ACCESS=0 TILE=2,4 LINES=1
#pragma vknn variants ACCESS=0 TILE=2,4 LINES=1 HALF=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Winograd's first step: B^T d B of each input tile, for TILE x TILE outputs of a 3x3 kernel. A lane
// has one tile and one vec4 of channels.
//
// LINES, for GPUs: a lane has one line of a tile, a column of the input and then a row of the result,
// handed over through shared memory. A whole tile does not fit the registers of many GPUs. With HALF
// v is float16, scaled so that nothing overflows that x could hold; else, and with BF16, it is float32.
//
// x [N, c4, H, W] in C4. v: [place in the tile][c4][tile], tiles in the order (image, row, column).
#include "common/tensor.glsl"
#include "common/grid.glsl"

INPUT4F(0, x);
#if LINES && !BF16
OUTPUT4F(1, v);
#else
OUTPUT4S(1, v);
#endif
#include "convolution/winograd.glsl"

layout(push_constant) uniform P {
    int total, tiles;              // lanes; tiles of all images
    int tiles_image, tiles_w;      // tiles of an image, of a row
    int c4, in_h, in_w;
    int pad_h, pad_w;
    int place_step;                // vec4s of v from place to place
} p;

// A tile's column of the input, `origin`, `size` and `plane` being as in main.
#define LOAD_COLUMN(d, column) \
    [[unroll]] for (int i = 0; i < SIDE; i++) { \
        ivec2 at = origin + ivec2(column, i); \
        bool inside = uint(at.x) < uint(size.x) && uint(at.y) < uint(size.y); \
        d[i] = LOAD4(x, plane + (inside ? at.y * size.x + at.x : 0)); \
        d[i] = inside ? d[i] : vec4(0.0); \
    }

#if LINES
layout(constant_id = 10) const int HELD = 16;  // tiles of a workgroup, which has SIDE lanes for each
shared vec4 half_way[SIDE * SIDE * HELD];
#endif

void main() {
#if LINES
    int lane = int(gl_LocalInvocationID.x);
    int line = lane / HELD, own = lane - line * HELD;
    int first = linear_group() * HELD;
    if (first >= p.total) return;
    bool stored = first + own < p.total;
    int id = min(first + own, p.total - 1);
#else
    int id = linear_lane();
    if (id >= p.total) return;
#endif
    int c = divide(id, p.tiles);
    int tile = id - c * p.tiles;
    int image = divide(tile, p.tiles_image);
    tile -= image * p.tiles_image;
    int row = divide(tile, p.tiles_w);
    ivec2 size = ivec2(p.in_w, p.in_h);
    ivec2 origin = ivec2(tile - row * p.tiles_w, row) * TILE - ivec2(p.pad_w, p.pad_h);
    int plane = (image * p.c4 + c) * size.x * size.y;
    int step_ = p.place_step;

#if LINES
    vec4 d[SIDE];
    LOAD_COLUMN(d, line)
    TRANSFORM_INPUT(d)
    [[unroll]] for (int i = 0; i < SIDE; i++) half_way[(i * SIDE + line) * HELD + own] = d[i];
    barrier();
    [[unroll]] for (int j = 0; j < SIDE; j++) d[j] = half_way[(line * SIDE + j) * HELD + own];
    TRANSFORM_INPUT(d)
    if (!stored) return;
    [[unroll]] for (int j = 0; j < SIDE; j++)
        STORE4(v, (line * SIDE + j) * step_ + id, SCALED(d[j]));
#else
    vec4 half_way[SIDE * SIDE];
    [[unroll]] for (int j = 0; j < SIDE; j++) {
        vec4 d[SIDE];
        LOAD_COLUMN(d, j)
        TRANSFORM_INPUT(d)
        [[unroll]] for (int i = 0; i < SIDE; i++) half_way[i * SIDE + j] = d[i];
    }
    [[unroll]] for (int i = 0; i < SIDE; i++) {
        vec4 d[SIDE];
        [[unroll]] for (int j = 0; j < SIDE; j++) d[j] = half_way[i * SIDE + j];
        TRANSFORM_INPUT(d)
        [[unroll]] for (int j = 0; j < SIDE; j++) STORE4(v, (i * SIDE + j) * step_ + id, d[j]);
    }
#endif
}
