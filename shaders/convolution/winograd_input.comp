#version 450
#pragma vknn variants ACCESS=0,1,2 TILE=2,4
#pragma vknn variants ACCESS=0,1,2 TILE=2,4 HALF=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Winograd's first step: B^T d B of each input tile, for TILE x TILE outputs of a 3x3 kernel. A lane
// has one tile and one vec4 of channels.
//
// x [N, c4, H, W] in C4. v: [place in the tile][c4][tile], tiles in the order (image, row, column).
#include "common/tensor.glsl"
#include "common/grid.glsl"

INPUT4F(0, x);
OUTPUT4S(1, v);
#include "convolution/winograd.glsl"

layout(push_constant) uniform P {
    int total, tiles;              // lanes; tiles of all images
    int tiles_image, tiles_w;      // tiles of an image, of a row
    int c4, in_h, in_w;
    int pad_h, pad_w;
    int place_step;                // vec4s of v from place to place
} p;

void main() {
    int id = linear_lane();
    if (id >= p.total) return;
    int c = divide(id, p.tiles);
    int tile = id - c * p.tiles;
    int image = divide(tile, p.tiles_image);
    tile -= image * p.tiles_image;
    int row = divide(tile, p.tiles_w);
    ivec2 size = ivec2(p.in_w, p.in_h);
    ivec2 origin = ivec2(tile - row * p.tiles_w, row) * TILE - ivec2(p.pad_w, p.pad_h);
    int plane = (image * p.c4 + c) * size.x * size.y;

    vec4 half_way[SIDE * SIDE];
    [[unroll]] for (int j = 0; j < SIDE; j++) {
        vec4 d[SIDE];
        [[unroll]] for (int i = 0; i < SIDE; i++) {
            ivec2 at = origin + ivec2(j, i);
            bool inside = uint(at.x) < uint(size.x) && uint(at.y) < uint(size.y);
            d[i] = LOAD4(x, plane + (inside ? at.y * size.x + at.x : 0));
            d[i] = inside ? d[i] : vec4(0.0);
        }
        TRANSFORM_INPUT(d)
        [[unroll]] for (int i = 0; i < SIDE; i++) half_way[i * SIDE + j] = d[i];
    }
    int step_ = p.place_step;
    [[unroll]] for (int i = 0; i < SIDE; i++) {
        vec4 d[SIDE];
        [[unroll]] for (int j = 0; j < SIDE; j++) d[j] = half_way[i * SIDE + j];
        TRANSFORM_INPUT(d)
        [[unroll]] for (int j = 0; j < SIDE; j++) STORE4(v, (i * SIDE + j) * step_ + id, d[j]);
    }
}
