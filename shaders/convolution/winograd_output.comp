#version 450
#pragma vknn variants ACCESS=0,1,2 TILE=2,4
#pragma vknn variants ACCESS=0,1,2 TILE=2,4 HALF=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Winograd's last step: A^T m A of each tile of products, bias and epilogue. A lane has one tile and one
// vec4 of channels.
//
// product: [place in the tile][m4][tile], tiles in the order (image, row, column). bias [m4].
// y [N, m4, H, W] in C4.
#include "common/tensor.glsl"
#include "common/grid.glsl"

INPUT4S(0, product);
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

void main() {
    int id = linear_lane();
    if (id >= p.total) return;
    int m = divide(id, p.tiles);
    int tile = id - m * p.tiles;
    int image = divide(tile, p.tiles_image);
    tile -= image * p.tiles_image;
    int row = divide(tile, p.tiles_w);
    ivec2 size = ivec2(p.out_w, p.out_h);
    ivec2 origin = ivec2(tile - row * p.tiles_w, row) * TILE;
    int step_ = p.place_step, channels = p.channels;

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
        TRANSFORM_OUTPUT(d)
        [[unroll]] for (int j = 0; j < TILE; j++) {
            if (origin.x + j < size.x && origin.y + i < size.y) {
                int at = first + i * size.x + j;
                STORE4(y, at, zero_padding_lanes(epilogue4(d[j] + b, at, m), m, channels));
            }
        }
    }
}
