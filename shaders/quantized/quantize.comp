#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "common/mathf.glsl"
#include "quantized/channel.glsl"
#include "quantized/rounding.glsl"

// y = clip(round(x / scale) + zero, low, high); x * scale where MULTIPLY is set.

INPUT4F(0, x);
INPUT1S(1, scale);
INPUT1I(2, zero);
OUTPUT4I(3, y);

layout(constant_id = 10) const int C4 = 0;
layout(constant_id = 11) const int SCALE_VECTOR = 0;
layout(constant_id = 12) const int ZERO_VECTOR = 0;
layout(constant_id = 13) const int MULTIPLY = 0;
layout(constant_id = 14) const int HALF_AWAY = 0;

layout(push_constant) uniform P {
    int count;     // vec4s
    int inner;     // scalars (LINEAR) or vec4s (C4) behind the channel axis
    int channels;
    int low;
    int high;
} p;

vec4 rounded(vec4 v) { return HALF_AWAY == 0 ? roundEven(v) : half_away(v); }

// v + z for whole v, held within int32.
ivec4 saturated_sum(vec4 v, ivec4 z) {
    ivec4 whole = ivec4(clamp(v, vec4(-2147483648.0), vec4(2147483520.0)));
    ivec4 sum = whole + z;
    bvec4 wrapped = lessThan((whole ^ sum) & (z ^ sum), ivec4(0));
    sum = mix(sum, 0x7fffffff ^ (whole >> 31), wrapped);
    sum = mix(sum, ivec4(0x7fffffff), greaterThanEqual(v, vec4(2147483648.0)));
    return mix(sum, ivec4(0x80000000), lessThan(v, vec4(-2147483648.0)));
}

void main() {
    int at = linear_lane();
    if (at >= p.count) return;
    ivec4 channel = channels_of(C4, at, p.inner, p.channels);
    vec4 s = vec4(LOAD1(scale, 0));
    if (SCALE_VECTOR != 0)
        s = vec4(LOAD1(scale, channel.x), LOAD1(scale, channel.y), LOAD1(scale, channel.z),
                 LOAD1(scale, channel.w));
    ivec4 z = ivec4(LOAD1(zero, 0));
    if (ZERO_VECTOR != 0)
        z = ivec4(LOAD1(zero, channel.x), LOAD1(zero, channel.y), LOAD1(zero, channel.z),
                  LOAD1(zero, channel.w));
    vec4 v = LOAD4(x, at);
    precise vec4 scaled = v * s;
    v = rounded(MULTIPLY != 0 ? scaled : ieee_quotient(v, s));
    v = if_(isnan(v), vec4(0.0), v);
    ivec4 q = clamp(saturated_sum(v, z), ivec4(p.low), ivec4(p.high));
    if (C4 != 0) q = keep_channels(q, at, p.inner, p.channels);
    STORE4(y, at, q);
}
