// Steps and zero points of rows rounded to 8 bits (vknn.ops.quantized.dynamic). Codes of the roundings:
// 0 none, 1 symmetric, 2 asymmetric.

#include "common/extremes.glsl"
#include "common/mathf.glsl"

#define SMALLEST uintBitsToFloat(0x00800000u)  // 2^-126, the least normal number

struct Steps {
    float size;
    float per_unit;  // steps in 1.0
    float zero;      // the integer that stands for 0
    float least, most;
};

float whole_away(float v) {
    float size = abs(v), low = floor(size), whole = low + float(size - low >= 0.5);
    return v < 0.0 ? -whole : whole;
}

// Of a row whose numbers are in low..high, where 0 is among them. NaN counts as both infinities, and makes
// a NaN of each number of its row, as an infinity does.
Steps steps_of(float low, float high, int rounding) {
    float most = max(high, -low);
    if (isinf(most)) return Steps(M_NAN, 0.0, 0.0, 0.0, 0.0);
    // A step below the normal numbers has no reciprocal.
    bool there = rounding == 1 ? most >= 127.0 * SMALLEST : high - low >= 255.0 * SMALLEST;
    if (!there) return Steps(1.0, 0.0, 0.0, 0.0, 0.0);
    if (rounding == 1) return Steps(most / 127.0, 127.0 / most, 0.0, -127.0, 127.0);
    precise float range = high - low;
    precise float size = range / 255.0;
    precise float below = 255.0 * (low / range), above = 255.0 * (high / range);
    float zero = 128.0 - below < 127.0 + above ? -128.0 - below : 127.0 - above;
    return Steps(size, 1.0 / size, whole_away(clamp(zero, -128.0, 127.0)), -128.0, 127.0);
}

// Numbers as counts of steps.
vec4 in_steps(vec4 v, Steps s) {
    precise vec4 scaled = v * s.per_unit;
    vec4 size = abs(scaled), low = floor(size);
    vec4 whole = min(low + vec4(greaterThanEqual(size - low, vec4(0.5))), 256.0);
    whole = if_(lessThan(scaled, vec4(0.0)), -whole, whole);
    return isnan(s.size) ? vec4(0.0) : clamp(whole + s.zero, s.least, s.most) - s.zero;
}
