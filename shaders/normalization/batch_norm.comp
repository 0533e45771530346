#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// y = x * scale + shift for each channel; a lane takes UNROLL vec4s, a workgroup's width apart.
//
// x and y [N, c4, plane] in C4; w: scale [c4], then shift [c4].
#include "common/tensor.glsl"
#include "common/grid.glsl"

INPUT4(0, x);
INPUT4S(1, w);
OUTPUT4(2, y);

layout(constant_id = 10) const int UNROLL = 4;

layout(push_constant) uniform P {
    int total, plane, c4, channels;  // total counts vec4s
} p;

void main() {
    int lanes = int(gl_WorkGroupSize.x);
    int first = linear_group() * lanes * UNROLL + int(gl_LocalInvocationID.x);
    [[unroll]] for (int i = 0; i < UNROLL; i++) {
        int at = first + i * lanes;
        if (at < p.total) {
            int c = divide(at, p.plane);
            c -= divide(c, p.c4) * p.c4;
            vec4 v = fma(LOAD4(x, at), LOAD4(w, c), LOAD4(w, p.c4 + c));
            STORE4(y, at, zero_padding_lanes(v, c, p.channels));
        }
    }
}
