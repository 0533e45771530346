#version 450
#pragma vknn variants ACCESS=0,1,2 WIDE=0,1
#pragma vknn variants ACCESS=0,1,2 WIDE=1 BYTES=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define ELEM 1
#include "common/tensor.glsl"
#include "common/indexing.glsl"
#include "common/mathf.glsl"
#include "quantized/fixed_point.glsl"
#include "quantized/rounding.glsl"

// Arithmetic of two quantized tensors, with broadcasting (QuantizedBinary has the formulas).
// BYTES: without broadcasting, all in C4B.
#ifndef BYTES
#define BYTES 0
#endif
#if WIDE && !BYTES
INPUT4I(0, x);
INPUT4I(1, w);
#else
INPUT1I(0, x);
INPUT1I(1, w);
#endif
INPUT1I(2, setting);  // zeros, multipliers, shifts, left shift, zero out, low, high
#if BYTES
OUTPUT1I(3, y);
#else
OUTPUT4I(3, y);
#endif

#define ADD 0
#define SUB 1
#define MUL 2
#define SQUARED_DIFFERENCE 3
#define DIV 4
#define PRELU 5
#define SHIFTED_ADD 6
#define SHIFTED_SUB 7
#define DOUBLING_HIGH 8
#define FLOAT_ADD 9
#define FLOAT_SUB 10
#define FLOAT_MUL 11
#define FAR 1073741824.0
layout(constant_id = 10) const int KIND = 0;
layout(constant_id = 14) const int PADDING_LANES = 0;  // C4: there are lanes behind the last channel
layout(constant_id = 15) const int OTHER_UNSIGNED = 0;  // BYTES: 1 where w is unsigned

layout(push_constant) uniform P {
    int count, chunk, elements, spatial, blocks, channels;
    int size[6], stride_x[6], stride_w[6];
} p;

#if BYTES
void load(int i, out ivec4 a, out ivec4 b) {
    a = bytes_of(LOAD1(x, i), BYTES_UNSIGNED);
    b = bytes_of(LOAD1(w, i), OTHER_UNSIGNED);
}
#else
#include "common/broadcast.glsl"
#endif

// Read before the loop: CPU drivers read it anew wherever it stands.
int held[12];

ivec4 value(int k) { return ivec4(held[k]); }

ivec4 times(int k, ivec4 v) { return fixed_multiply(v, value(2 + k), value(5 + k)); }

// How far v can be shifted left without changing its sign.
ivec4 leading_sign_bits(ivec4 v) {
    // findMSB of a negative number is that of its complement; of 0 and -1 it is -1.
    return ivec4(30) - findMSB(v);
}

// 1 / v = raw / 2^31 / 2^bits for positive v: three Newton steps on 1 / (1 + f).
void reciprocal(ivec4 v, out ivec4 raw, out ivec4 bits) {
    ivec4 zeros = ivec4(31) - findMSB(v);
    ivec4 fraction = ivec4((uvec4(v) << uvec4(zeros)) - uvec4(0x80000000u));
    // (fraction + 2^31 - 1) / 2 away from zero; the sum fits as fraction is not negative.
    ivec4 half_ = ivec4((uvec4(fraction) + uvec4(0x80000000u)) >> 1);
    ivec4 z = 1515870810 + doubling_high(half_, ivec4(-1010580540));
    for (int k = 0; k < 3; ++k) {
        ivec4 rest = (1 << 29) - doubling_high(half_, z);
        z += saturating_left(doubling_high(z, rest), 2);
    }
    raw = saturating_left(z, 1);
    bits = ivec4(31) - zeros;
}

ivec4 divided(ivec4 a, ivec4 b) {
    ivec4 sign_ = b >> 31;
    a = (a ^ sign_) - sign_;
    b = max((b ^ sign_) - sign_, ivec4(1));
    ivec4 inverse, over_unit;
    reciprocal(b, inverse, over_unit);
    ivec4 headroom = leading_sign_bits(a);
    ivec4 scaled = doubling_high(doubling_high(a << headroom, inverse), value(4));
    ivec4 right = over_unit + headroom - value(7);
    bvec4 astray = greaterThanEqual(right & 63, ivec4(32));
    ivec4 low_bits = right & 31;
    ivec4 kept = rounding_shift(scaled, low_bits);
    ivec4 other = (scaled >> low_bits) + ivec4(greaterThanEqual(scaled, ivec4(0)));
    return mix(kept, other, astray);
}

// A sum, difference or product in floats, whose bits the multipliers are, over a third; halves to even.
ivec4 in_floats(ivec4 a, ivec4 b) {
    precise vec4 first = vec4(a) * intBitsToFloat(value(2));
    precise vec4 second = vec4(b) * intBitsToFloat(value(3));
    precise vec4 real = KIND == FLOAT_ADD ? first + second : KIND == FLOAT_SUB ? first - second : first * second;
    vec4 whole = roundEven(ieee_quotient(real, intBitsToFloat(value(4))));
    return ivec4(clamp(whole, vec4(-FAR), vec4(FAR)));
}

void main() {
    [[unroll]] for (int k = 0; k < 12; ++k) held[k] = LOAD1(setting, k);
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        ivec4 a, b, v;
        load(i, a, b);
        a -= value(0);
        b -= value(1);
        if (KIND == MUL) {
            v = times(2, a * b);
        } else if (KIND == DOUBLING_HIGH) {
            v = min((a * b + (1 << 14)) >> 15, ivec4(32767));
        } else if (KIND == PRELU) {
            v = mix(times(0, a), times(1, a * b), lessThan(a, ivec4(0)));
        } else if (KIND == DIV) {
            v = divided(a, b);
        } else if (KIND >= FLOAT_ADD) {
            v = in_floats(a, b);
        } else if (KIND == SHIFTED_ADD || KIND == SHIFTED_SUB) {
            a = rounding_shift(a, -value(5));
            b = rounding_shift(b, -value(6));
            v = clamp(KIND == SHIFTED_ADD ? a + b : a - b, -32768, 32767);
        } else {
            a = times(0, a << value(8));
            b = times(1, b << value(8));
            v = KIND == ADD ? a + b : a - b;
            if (KIND == SQUARED_DIFFERENCE) v *= v;
            v = times(2, v);
        }
        v = clamp(v + value(9), value(10), value(11));
        if (PADDING_LANES != 0) {
            int row = quotient(i, p.spatial);
            v = zero_padding_lanes(v, row - quotient(row, p.blocks) * p.blocks, p.channels);
        }
#if BYTES
        STORE1(y, i, word_of(v));
#else
        STORE4(y, i, v);
#endif
    }
}
