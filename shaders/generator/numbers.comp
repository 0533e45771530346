#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"
#include "common/mathf.glsl"
#include "random/philox.glsl"

// Random numbers of a generator that goes on, a lane four of them. See vknn/ops/generator/numbers.py.

INPUT1I(0, position);  // the number of the first group: its low and its high word
OUTPUT4F(1, y);
OUTPUT1I(2, next);  // that of the group behind the last

layout(constant_id = 10) const int KIND = 0;  // 0 uniform, 1 normal

layout(push_constant) uniform P {
    int count, chunk;
    int key_low, key_high, stream_low, stream_high;
} p;

uvec2 group(uint place) {
    uint carry, low = uaddCarry(uint(LOAD1(position, 0)), place, carry);
    return uvec2(low, uint(LOAD1(position, 1)) + carry);
}

// From 0 to less than 1, in steps of 2^-23.
vec4 unit_floats(uvec4 words) { return uintBitsToFloat((words & 0x7fffffu) | 0x3f800000u) - 1.0; }

vec4 normal_numbers(vec4 u) {
    vec2 r = sqrt(max(-2.0 * m_log(max(u.xxzz, 1.0e-7)).xz, 0.0));
    vec4 angle = 2.0 * M_PI * u.yyww;
    vec2 across = m_sin_shifted(angle, 0).xz, along = m_sin_shifted(angle, 1).xz;
    return vec4(r.x * across.x, r.x * along.x, r.y * across.y, r.y * along.y);
}

void main() {
    uvec2 key = uvec2(uint(p.key_low), uint(p.key_high));
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        uvec4 counter = uvec4(group(uint(i)), uint(p.stream_low), uint(p.stream_high));
        vec4 u = unit_floats(philox_of(counter, key));
        vec4 v;
        if (KIND == 0) v = u;
        else v = normal_numbers(u);
        STORE4(y, i, v);
        if (i == 0) {
            uvec2 behind = group(uint(p.count));
            STORE1(next, 0, int(behind.x));
            STORE1(next, 1, int(behind.y));
        }
    }
}
