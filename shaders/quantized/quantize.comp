#version 450
#pragma vknn variants ACCESS=0,1,2 BYTES=0,1,2,3
#pragma vknn variants ACCESS=0,1,2 BYTES=0,1,2,3 HALF=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"
#include "common/mathf.glsl"
#include "quantized/channel.glsl"
#include "quantized/rounding.glsl"

// y = clip(round(x / scale) + zero, low, high); x * scale where MULTIPLY is set.
// BYTES 0: y in the layout of x; 1: x in C4, y in C4B; 2: x LINEAR, y in C4B. An item is a vec4 of y.
// 3: as 2, `inner` a multiple of four; an item is four vec4s of y in a row, from a vec4 of each channel.

#if BYTES == 2
INPUT1F(0, x);
#else
INPUT4F(0, x);
#endif
INPUT1S(1, scale);
INPUT1I(2, zero);
#if BYTES == 0 || BYTES == 3
OUTPUT4I(3, y);
#else
OUTPUT1I(3, y);
#endif

layout(constant_id = 10) const int C4 = 0;
layout(constant_id = 11) const int SCALE_VECTOR = 0;
layout(constant_id = 12) const int ZERO_VECTOR = 0;
layout(constant_id = 13) const int MULTIPLY = 0;
layout(constant_id = 14) const int HALF_AWAY = 0;
layout(constant_id = 15) const int SATURATE = 1;  // the sum may be beyond int32
layout(constant_id = 17) const int NEAR = 0;      // 1: scales are of 2^-60 to 2^60 in size
layout(constant_id = 16) const int PADDING_LANES = 0;  // C4: there are lanes behind the last channel

layout(push_constant) uniform P {
    int count, chunk;  // of vec4s
    int inner;         // scalars (LINEAR) or vec4s (C4) behind the channel axis
    int channels;
    int low;
    int high;
} p;

#define FAR 1073741824.0

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

ivec4 sum_of(vec4 v, ivec4 z) {
    return SATURATE != 0 ? saturated_sum(v, z) : ivec4(clamp(v, vec4(-FAR), vec4(FAR))) + z;
}

// `high`: the upper part of s.
ivec4 quantized(vec4 v, vec4 s, vec4 high, ivec4 z) {
    precise vec4 scaled = v * s;
    if (MULTIPLY == 0) scaled = NEAR != 0 ? near_quotient(v, s, high) : ieee_quotient(v, s);
    v = rounded(scaled);
    v = if_(isnan(v), vec4(0.0), v);
    return clamp(sum_of(v, z), ivec4(p.low), ivec4(p.high));
}

#if BYTES >= 2
// Takes the channel block and the place in it apart: the place of x's first element of the block.
int first_of(int at, int inner, out int channel) {
    int row = quotient(at, inner), blocks = (p.channels + 3) / 4;
    int batch = quotient(row, blocks);
    channel = 4 * (row - batch * blocks);
    return (batch * p.channels + channel) * inner + (at - row * inner);
}
#endif

#if BYTES == 3
void main() {
    // Read before the loop: CPU drivers read it anew wherever it stands.
    float s = LOAD1(scale, 0);
    int z = LOAD1(zero, 0);
    int inner = p.inner / 4;
    float high = m_high_part(vec4(s)).x;
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int channel;
        int from = first_of(i, inner, channel);
        ivec4 words = ivec4(0);
        [[unroll]] for (int k = 0; k < 4; ++k) {
            int c = min(channel + k, p.channels - 1);
            if (SCALE_VECTOR != 0) {
                s = LOAD1(scale, c);
                high = m_high_part(vec4(s)).x;
            }
            if (ZERO_VECTOR != 0) z = LOAD1(zero, c);
            vec4 v = LOAD4(x, from + (c - channel) * inner);
            ivec4 q = quantized(v, vec4(s), vec4(high), ivec4(z));
            words |= channel + k < p.channels ? (q & 255) << (8 * k) : ivec4(0);
        }
        STORE4(y, i, words);
    }
}
#else
vec4 values(int at) {
#if BYTES == 2
    int channel;
    int from = first_of(at, p.inner, channel);
    ivec4 place = from + p.inner * min(ivec4(0, 1, 2, 3), ivec4(p.channels - 1 - channel));
    return vec4(LOAD1(x, place.x), LOAD1(x, place.y), LOAD1(x, place.z), LOAD1(x, place.w));
#else
    return LOAD4(x, at);
#endif
}

void main() {
    // Read before the loop: CPU drivers read it anew wherever it stands.
    vec4 s = vec4(LOAD1(scale, 0));
    ivec4 z = ivec4(LOAD1(zero, 0));
    vec4 high = m_high_part(s);
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        if (SCALE_VECTOR != 0 || ZERO_VECTOR != 0) {
            ivec4 c = channels_of(C4, i, p.inner, p.channels);
            if (SCALE_VECTOR != 0) {
                s = vec4(LOAD1(scale, c.x), LOAD1(scale, c.y), LOAD1(scale, c.z), LOAD1(scale, c.w));
                high = m_high_part(s);
            }
            if (ZERO_VECTOR != 0)
                z = ivec4(LOAD1(zero, c.x), LOAD1(zero, c.y), LOAD1(zero, c.z), LOAD1(zero, c.w));
        }
        ivec4 q = quantized(values(i), s, high, z);
        if (PADDING_LANES != 0) q = keep_channels(q, i, p.inner, p.channels);
#if BYTES == 0
        STORE4(y, i, q);
#else
        STORE1(y, i, word_of(q));
#endif
    }
}
#endif
