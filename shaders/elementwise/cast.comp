#version 450
#pragma vknn variants ACCESS=0,1,2 FROM_INT=0,1 TO_INT=0,1
#pragma vknn variants ACCESS=0,1,2 FROM_INT=0 TO_INT=0,1 HALF=1
#pragma vknn variants ACCESS=0,1,2 FROM_INT=1 TO_INT=0 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"
#include "elementwise/integers.glsl"

// y = x in another element type, in either layout (0 stays 0). Devices hold float32 and int32 only:
// a narrower type is a range that values are brought into.
#if FROM_INT
INPUT4I(0, x);
#else
INPUT4F(0, x);
#endif
#if TO_INT
OUTPUT4I(1, y);
#else
OUTPUT4F(1, y);
#endif

layout(constant_id = 15) const int WRAP = 0;     // integers into fewer bits (elementwise/integers.glsl)
layout(constant_id = 16) const int TO_BOOL = 0;
layout(constant_id = 17) const int TO_HALF = 0;  // rounded to float16
layout(constant_id = 18) const int NAN_HIGH = 0; // the largest integer for what is no number, not 0
layout(push_constant) uniform P { int count, chunk; float low, high; int int_low, int_high; } p;

// Towards zero, into [low, high].
ivec4 saturated(vec4 v) {
    ivec4 whole = ivec4(clamp(v, -2147483648.0, 2147483520.0));
    whole = mix(whole, ivec4(p.int_high), greaterThanEqual(v, vec4(p.high)));
    whole = mix(whole, ivec4(p.int_low), lessThanEqual(v, vec4(p.low)));
    return mix(whole, ivec4(NAN_HIGH != 0 ? p.int_high : 0), isnan(v));
}

// To 11 significant bits, halves to even; below 2^-14 to whole multiples of 2^-24.
vec4 half_precision(vec4 v) {
    ivec4 bits = floatBitsToInt(v);
    ivec4 magnitude = bits & 0x7fffffff;
    ivec4 rounded = (magnitude + 0xfff + ((magnitude >> 13) & 1)) & ~0x1fff;
    vec4 y = intBitsToFloat(rounded);
    vec4 a = intBitsToFloat(magnitude);
    y = mix(y, intBitsToFloat(ivec4(0x7f800000)), greaterThanEqual(y, vec4(65536.0)));
    y = mix(y, roundEven(a * 16777216.0) / 16777216.0, lessThan(a, vec4(6.103515625e-5)));
    y = mix(y, a, greaterThan(magnitude, ivec4(0x7f800000)));
    return mix(y, -y, lessThan(bits, ivec4(0)));
}

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
#if FROM_INT
        ivec4 v = LOAD4(x, i);
#if TO_INT
        if (TO_BOOL != 0) v = ivec4(notEqual(v, ivec4(0)));
        STORE4(y, i, wrap(v, WRAP));
#else
        vec4 f = vec4(v);
        if (TO_HALF != 0) f = half_precision(f);
        STORE4(y, i, f);
#endif
#else
        vec4 v = LOAD4(x, i);
#if TO_INT
        ivec4 whole;
        if (TO_BOOL != 0) whole = ivec4(notEqual(v, vec4(0.0)));
        else whole = saturated(v);
        STORE4(y, i, whole);
#else
        if (TO_HALF != 0) v = half_precision(v);
        STORE4(y, i, v);
#endif
#endif
    }
}
