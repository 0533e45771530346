// Fixed-point arithmetic on int32, bit-exact with vknn.ops.quantized.fixed_point.

#ifndef VKNN_FIXED_POINT_GLSL
#define VKNN_FIXED_POINT_GLSL

#define INT_MAX 0x7fffffff
#define INT_MIN int(0x80000000)

// The high half of 2 a b, rounded: (a b + 2^30) >> 31; a and b must not both be the lowest number.
ivec4 doubling_high_unsaturated(ivec4 a, ivec4 b) {
    ivec4 high, low;
    imulExtended(a, b, high, low);
    // The two highest bits of the low word, rounded: 2 is a carry.
    return (high << 1) + ivec4(((uvec4(low) >> 30) + 1u) >> 1);
}

// The same, saturated where both are the lowest number.
ivec4 doubling_high(ivec4 a, ivec4 b) {
    ivec4 y = doubling_high_unsaturated(a, b);
    bvec4 lowest_a = equal(a, ivec4(INT_MIN)), lowest_b = equal(b, ivec4(INT_MIN));
    ivec4 both = ivec4(lowest_a) & ivec4(lowest_b);
    return mix(y, ivec4(INT_MAX), equal(both, ivec4(1)));
}

// x / 2^e for 0 <= e <= 31, halves away from zero.
ivec4 rounding_shift(ivec4 x, ivec4 e) {
    ivec4 mask = ivec4((uvec4(1) << uvec4(e)) - uvec4(1));
    return (x >> e) + ivec4(greaterThan(x & mask, (mask >> 1) - (x >> 31)));
}

// x * q / 2^31 * 2^shift, rounded twice; multipliers q are never negative.
ivec4 fixed_multiply(ivec4 x, ivec4 q, ivec4 shift) {
    ivec4 left = max(shift, ivec4(0)), right = max(-shift, ivec4(0));
    return rounding_shift(doubling_high_unsaturated(x << left, q), right);
}

// x << bits, held within int32.
ivec4 saturating_left(ivec4 x, int bits) {
    ivec4 most = ivec4(INT_MAX >> bits), least = ivec4(INT_MIN >> bits);
    ivec4 y = mix(x << bits, ivec4(INT_MAX), greaterThan(x, most));
    return mix(y, ivec4(INT_MIN), lessThan(x, least));
}

#endif
