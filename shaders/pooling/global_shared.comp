#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 ELEM=1
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
// Maximum or mean of a whole image, one workgroup of LANES (a power of two) a vec4 of channels. Means of
// integers are rounded, halves away from zero.
//
// x [N, c4, pixels] and y [N, c4] in C4.
#include "common/tensor.glsl"
#include "common/grid.glsl"

INPUT4(0, x);
OUTPUT4(1, y);
#if ELEM == 0
#define EPILOGUE_BINDING 2
#include "common/epilogue.glsl"
#endif
#include "pooling/reduce.glsl"

layout(constant_id = 11) const int LANES = 64;

layout(push_constant) uniform P {
    int total, c4, channels, pixels;
} p;

shared VEC4 parts[LANES];

void main() {
    int id = linear_group();
    int lane = int(gl_LocalInvocationID.x);
    VEC4 v = pool_start();
    if (id < p.total)
        for (int i = lane; i < p.pixels; i += LANES) v = pool_join(v, LOAD4(x, id * p.pixels + i));
    parts[lane] = v;
    barrier();
    for (int half_ = LANES / 2; half_ > 0; half_ /= 2) {
        if (lane < half_) parts[lane] = pool_join(parts[lane], parts[lane + half_]);
        barrier();
    }
    if (lane != 0 || id >= p.total) return;
    v = parts[0];
    int c = id - divide(id, p.c4) * p.c4;
#if ELEM == 0
    if (AVERAGE) v /= float(p.pixels);
    v = epilogue4(v, id, c);
#else
    if (AVERAGE) v = rounded_mean(v, p.pixels);
#endif
    STORE4(y, id, zero_padding_lanes(v, c, p.channels));
}
