#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"
#include "common/mathf.glsl"
#include "random/philox.glsl"

// Random numbers, a lane four of them.

INPUT1I(0, draw);  // which draw this is
OUTPUT4F(1, y);

layout(constant_id = 10) const int KIND = 0;  // 0 uniform, 1 normal, 2 bernoulli

// The numbers times `factor` plus `offset`, uniform ones at most `largest`; `below` of 2^24 random numbers give 1.
layout(push_constant) uniform P {
    int count, chunk;
    int key_low, key_high;
    float offset, factor, largest;
    int below;
} p;

vec4 uniform_numbers(uvec4 words) {
    precise vec4 scaled = fractions(words) * p.factor;
    precise vec4 y = scaled + p.offset;
    return min(y, p.largest);
}

vec4 normal_numbers(uvec4 words) {
    vec4 u = fractions(words);
    vec2 r = sqrt(max(-2.0 * m_log(u.xxzz + 1.0 / 16777216.0).xz, 0.0));
    vec4 angle = 2.0 * M_PI * u.yyww;
    vec2 along = m_sin_shifted(angle, 1).xz, across = m_sin_shifted(angle, 0).xz;
    return p.offset + p.factor * vec4(r.x * along.x, r.x * across.x, r.y * along.y, r.y * across.y);
}

void main() {
    uint number = uint(LOAD1(draw, 0));
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        uvec4 words = philox(uint(i), number, uvec2(uint(p.key_low), uint(p.key_high)));
        vec4 v;
        if (KIND == 0) v = uniform_numbers(words);
        else if (KIND == 1) v = normal_numbers(words);
        else v = if_(lessThan(ivec4(words >> 8), ivec4(p.below)), vec4(1.0), vec4(0.0));
        STORE4(y, i, v);
    }
}
