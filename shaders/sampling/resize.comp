#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// Samples a C4 tensor, [planes, depth, height, width] of vec4s. The host has worked out for each
// place along each output axis which TAPS places of the input it is made of: `table` holds pairs of
// index and weight, for each place PAIRS of them (a whole number of vec4s), first those of the
// innermost axis. With one tap the weight is not looked at, so integers may be moved as well.
INPUT4(0, x);
INPUT4S(1, table);
OUTPUT4(2, y);

layout(constant_id = 10) const int TAPS = 1;
layout(constant_id = 11) const int AXES = 2;

#define VECS (TAPS > 2 ? 2 : 1)

layout(push_constant) uniform P {
    int count, chunk;
    int out_size[3], in_size[3];  // width, height, depth
} p;

// Tap t of place i, table entries from `first` on: index and weight.
vec2 tap(int first, int i, int t) {
    vec4 pair = LOAD4(table, (first + i) * VECS + (t >> 1));
    return (t & 1) == 0 ? pair.xy : pair.zw;
}

VEC4 along_x(int row, int i) {
    if (TAPS == 1) return LOAD4(x, row + int(tap(0, i, 0).x));
    VEC4 sum = VEC4(0);
#if ELEM == 0
    for (int t = 0; t < TAPS; ++t) {
        vec2 at = tap(0, i, t);
        sum += at.y * LOAD4(x, row + int(at.x));
    }
#endif
    return sum;
}

VEC4 along_y(int plane, int i, int j) {
    if (AXES < 2) return along_x(plane, i);
    int first = p.out_size[0];
    if (TAPS == 1) return along_x((plane + int(tap(first, j, 0).x)) * p.in_size[0], i);
    VEC4 sum = VEC4(0);
#if ELEM == 0
    for (int t = 0; t < TAPS; ++t) {
        vec2 at = tap(first, j, t);
        sum += at.y * along_x((plane + int(at.x)) * p.in_size[0], i);
    }
#endif
    return sum;
}

VEC4 along_z(int volume, int i, int j, int k) {
    if (AXES < 3) return along_y(volume, i, j);
    int first = p.out_size[0] + p.out_size[1];
    if (TAPS == 1) return along_y((volume + int(tap(first, k, 0).x)) * p.in_size[1], i, j);
    VEC4 sum = VEC4(0);
#if ELEM == 0
    for (int t = 0; t < TAPS; ++t) {
        vec2 at = tap(first, k, t);
        sum += at.y * along_y((volume + int(at.x)) * p.in_size[1], i, j);
    }
#endif
    return sum;
}

void main() {
    FOR_EACH_ITEM(n, p.count, p.chunk) {
        int i, j = 0, k = 0, rest;
        divide_rest(n, p.out_size[0], rest, i);
        if (AXES > 1) divide_rest(rest, p.out_size[1], rest, j);
        if (AXES > 2) divide_rest(rest, p.out_size[2], rest, k);
        // The first place of this channel block, in units of the outermost axis' rows.
        int start = rest * (AXES > 2 ? p.in_size[2] : AXES > 1 ? p.in_size[1] : p.in_size[0]);
        STORE4(y, n, along_z(start, i, j, k));
    }
}
