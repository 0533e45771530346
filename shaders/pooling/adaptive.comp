#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
// Pooling to a given size: window i of an axis runs from floor(i * in / out) to ceil((i + 1) * in / out).
// A lane computes one pixel of a vec4 of channels.
//
// x [N, c4, D, H, W] and y [N, c4, D, H, W] in C4.
#include "common/tensor.glsl"
#include "common/grid.glsl"

INPUT4(0, x);
OUTPUT4(1, y);
#define EPILOGUE_BINDING 2
#include "common/epilogue.glsl"
#include "pooling/reduce.glsl"

layout(push_constant) uniform P {
    int total, c4, channels;
    int in_d, in_h, in_w, out_d, out_h, out_w;
} p;

int window_begin(int i, int in_size, int out_size) { return i * in_size / out_size; }
int window_end(int i, int in_size, int out_size) { return ((i + 1) * in_size + out_size - 1) / out_size; }

void main() {
    int id = linear_lane();
    if (id >= p.total) return;
    int line = divide(id, p.out_w);
    int slice = divide(line, p.out_h);
    int plane = divide(slice, p.out_d);
    ivec3 at = ivec3(id - line * p.out_w, line - slice * p.out_h, slice - plane * p.out_d);
    int left = window_begin(at.x, p.in_w, p.out_w), right = window_end(at.x, p.in_w, p.out_w);
    int top = window_begin(at.y, p.in_h, p.out_h), bottom = window_end(at.y, p.in_h, p.out_h);
    int front = window_begin(at.z, p.in_d, p.out_d), back = window_end(at.z, p.in_d, p.out_d);

    vec4 v = pool_start();
    for (int z_ = front; z_ < back; z_++) {
        for (int y_ = top; y_ < bottom; y_++) {
            int row = ((plane * p.in_d + z_) * p.in_h + y_) * p.in_w;
            vec4 part = pool_start();
            for (int x_ = left; x_ < right; x_++) part = pool_join(part, LOAD4(x, row + x_));
            v = pool_join(v, part);
        }
    }
    if (AVERAGE) v /= float((right - left) * (bottom - top) * (back - front));
    int c = plane - divide(plane, p.c4) * p.c4;
    STORE4(y, id, zero_padding_lanes(epilogue4(v, id, c), c, p.channels));
}
