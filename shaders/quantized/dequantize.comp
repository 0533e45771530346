#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "common/mathf.glsl"
#include "quantized/channel.glsl"
#include "quantized/rounding.glsl"

// y = x * scale + bias, rounded once.

INPUT4I(0, x);
INPUT1S(1, scale);
INPUT1S(2, bias);
OUTPUT4F(3, y);

layout(constant_id = 10) const int C4 = 0;
layout(constant_id = 11) const int SCALE_VECTOR = 0;
layout(constant_id = 12) const int BIAS_VECTOR = 0;
layout(constant_id = 13) const int BIAS = 0;

layout(push_constant) uniform P {
    int count;
    int inner;
    int channels;
} p;

void main() {
    int at = linear_lane();
    if (at >= p.count) return;
    ivec4 channel = channels_of(C4, at, p.inner, p.channels);
    vec4 s = vec4(LOAD1(scale, 0)), b = vec4(LOAD1(bias, 0));
    if (SCALE_VECTOR != 0)
        s = vec4(LOAD1(scale, channel.x), LOAD1(scale, channel.y), LOAD1(scale, channel.z),
                 LOAD1(scale, channel.w));
    if (BIAS_VECTOR != 0)
        b = vec4(LOAD1(bias, channel.x), LOAD1(bias, channel.y), LOAD1(bias, channel.z),
                 LOAD1(bias, channel.w));
    vec4 v = vec4(LOAD4(x, at));
    if (BIAS != 0) v = m_fma(v, s, b);
    else v *= s;
    if (C4 != 0) v = keep_channels(v, at, p.inner, p.channels);
    STORE4(y, at, v);
}
