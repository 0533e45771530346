// Exact sums of products of quantized integers in register tiles, and their requantization: the
// counterpart of matmul/half_sums.glsl for QUANT. Include common/tensor.glsl (ELEM 1) first.
//
// QUANT 1: factors are integers in float32, which devices multiply faster than int32. Sums are exact
//          up to 2^24: they become integers every JOIN vec4s of k (0: only after the last).
// QUANT 2: factors are integers. Sums wrap around in 32 bits; with ROUNDING 1 and 7 they join sums of 64
//          bits every JOIN vec4s of k.
// QUANT 3: four of k are the bytes of one integer, for data and weights, and one instruction adds up
//          their products (VK_KHR_shader_integer_dot_product). The zero point of x counts in the
//          bias, so that data outside of x are the zero point. SIGN is taken off the data, and CENTRE
//          off the weights, whose bytes may have no room for the weights themselves: CENTRE times the
//          sum of the data is what sums lack then. All is modulo 2^32, as the sums are.
// QUANT 4: QUANT 1 with weights of which four of k are the bytes of one integer.
//
// `setting`: a vec4 (zero point of x, zero point of y, lowest, highest y), then vec4s of output
// channels: multipliers, shifts, bias and, with ROUNDING 1 and 7, the high words of the bias; with ROUNDING 6
// the second multipliers and shifts, and the bounds between. With RESIDUAL
// three more vec4s stand behind the first: (zero points of the result and of `other`, shift to the
// left, zero point of the sum), (their multipliers and the sum's, lowest), (their shifts, highest).

#if QUANT == 3 && !defined(COOPERATIVE)
#include "quantized/integer_dots.glsl"
#endif
#ifndef VKNN_QUANTIZED_SUMS_GLSL
#define VKNN_QUANTIZED_SUMS_GLSL

#include "quantized/fixed_point.glsl"

#ifndef RESIDUAL
#define RESIDUAL 0
#endif
#ifndef SHUFFLE
#define SHUFFLE 0
#endif
#ifndef BYTES
#define BYTES 0
#endif

layout(constant_id = 20) const int JOIN = 0;  // a power of two
// 0: the fixed-point product of int32, rounded twice; 1: of int64 and 16 bits of the multiplier,
// rounded once; 2: none, the sums themselves; 3: the product of int32, rounded once; 4: as 0, where
// sums stay below 2^29 and shifts, here positive, go 1 to 20 to the right; 5: the product with a
// float32 plus another, whose bits multiplier and shift are, halves to even; 6: as 5, and the result
// within bounds once more; 7: the product of int64, rounded once.
layout(constant_id = 21) const int ROUNDING = 0;
#define LONG_SUMS (ROUNDING == 1 || ROUNDING == 7)
// 128 where x is unsigned; with MIXED -128 where it is signed.
layout(constant_id = 22) const int SIGN = 0;
// 1: the zero point of x counts in the bias, as with QUANT 3 (QUANT 1 and 4).
layout(constant_id = 23) const int FOLDED = 0;
#if QUANT == 3 && !defined(COOPERATIVE)
layout(constant_id = 26) const int CENTRE = 0;
#endif

INPUT4I(SETTING_BINDING, setting);
#if BYTES
layout(constant_id = 24) const int OTHER_UNSIGNED = 0;  // 1 where `other` is unsigned
#endif
#if RESIDUAL && BYTES
INPUT1I(SETTING_BINDING + 1, other);
#define LOAD_OTHER(i) bytes_of(LOAD1(other, i), OTHER_UNSIGNED)
#elif RESIDUAL
INPUT4I(SETTING_BINDING + 1, other);
#define LOAD_OTHER(i) LOAD4(other, i)
#endif
#define HEAD_ROWS (RESIDUAL != 0 ? 4 : 1)

// vec4s of weights that a vec4 of k takes for a vec4 of output channels.
#if defined(FEW) && FEW
#define WEIGHT_ROWS 1
#else
#define WEIGHT_ROWS (QUANT >= 3 ? 1 : 4)
#endif
#if QUANT == 3
#ifndef COOPERATIVE
ivec4 dots(int a, ivec4 b) {
    return ivec4(dot_of_data(a, b.x), dot_of_data(a, b.y), dot_of_data(a, b.z), dot_of_data(a, b.w));
}

#endif

int bytes(ivec4 v) {
    v = (v - SIGN) & 255;
    return v.x | v.y << 8 | v.z << 16 | v.w << 24;
}
#endif
// Row q of weights that are bytes.
#define ROW_OF_BYTES(b, q) vec4(bitfieldExtract(b, 8 * (q), 8))

#if QUANT == 3
#define FACTOR int
#define WEIGHT4 ivec4
#define INPUT4W(b, name) INPUT4I(b, name)
#elif QUANT == 4
#define FACTOR vec4
#define WEIGHT4 ivec4
#define INPUT4W(b, name) INPUT4I(b, name)
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#elif QUANT == 1
#define FACTOR vec4
#define WEIGHT4 vec4
#define INPUT4W(b, name) INPUT4S(b, name)
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#else
#define FACTOR ivec4
#define WEIGHT4 ivec4
#define INPUT4W(b, name) INPUT4I(b, name)
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

// TAKE: a vec4 of x as factors; OUTSIDE: the factors of padding; X_OF: the argument of TAKE for a word
// of x in C4B.
#if QUANT == 3
#define X_OF(word) ((word) ^ (SIGN != 0 ? int(0x80808080) : 0))
#if BYTES == 1
#define TAKE(v) (v)
#else
#define TAKE(v) bytes(v)
#endif
#define OUTSIDE outside
#define ZERO_POINT \
    ivec4 head_ = LOAD4(setting, 0); \
    int outside = (head_.x & 255) * 0x01010101;

#else
#define X_OF(word) bytes_of(word, BYTES_UNSIGNED)
#define TAKE(v) FACTOR(FOLDED != 0 ? (v) : (v) - zero)
#define OUTSIDE FACTOR(FOLDED != 0 ? zero : 0)
#define ZERO_POINT \
    ivec4 head_ = LOAD4(setting, 0); \
    int zero = head_.x;
#endif

// With QUANT 3 and CENTRE `partial` has the sums of the data: ADD_DATA adds four of them to number `k` in
// each step, and ADD_CENTRED sums to the `columns` sums of each of `rows`, of data k = row * columns.
#if QUANT == 3 && !defined(COOPERATIVE)
#define ADD_DATA(partial, k, a) \
    if (CENTRE != 0) partial[k] += dot_of_data(a, ONES);
#define ADD_CENTRED(sums, partial, rows, columns) \
    if (CENTRE != 0) { \
        [[unroll]] for (int i_ = 0; i_ < rows; i_++) \
            [[unroll]] for (int j_ = 0; j_ < columns; j_++) \
                sums[i_ * columns + j_] += CENTRE * partial[i_ * columns]; \
    }
#else
#define ADD_CENTRED(sums, partial, rows, columns)
#endif

// TOTAL is sum k of the array when all has been added. Where all of them are exact in `partial`, they
// stay there (IN_PLACE): to move them takes as long as two more steps of the loop.
#if QUANT == 3
#define PARTIAL_SUMS(partial, count) \
    int partial[count]; \
    [[unroll]] for (int i_ = 0; i_ < count; i_++) partial[i_] = 0;
#define ADD_PARTIAL_SUMS(sums, partial, count, k)
#define ADD_LAST_SUMS(sums, partial, count)
#define TOTAL(sums, k) sums[k]
#define HIGH(k) ivec4(0)
#define MOVE_SUM(sums, k) sums[k] = sums[k + 1];
#else
#define IN_PLACE (JOIN == 0 && ROUNDING != 1 && ROUNDING != 7)
#define TOTAL(sums, k) (IN_PLACE ? ivec4(partial[k]) : sums[k])
#define MOVE_SUM(sums, k) \
    sums[k] = sums[k + 1]; \
    if (IN_PLACE) partial[k] = partial[k + 1]; \
    if (LONG_SUMS) high[k] = high[k + 1];
#define HIGH(k) high[k]
#define SUM(sums, partial) partial
#define PARTIAL_SUMS(partial, count) \
    FACTOR partial[count]; \
    ivec4 high[count]; \
    [[unroll]] for (int i_ = 0; i_ < count; i_++) { \
        partial[i_] = FACTOR(0); \
        high[i_] = ivec4(0); \
    }
#define ADD_PARTIAL_SUMS(sums, partial, count, k) \
    if (JOIN != 0 && ((k) & (JOIN - 1)) == JOIN - 1) { ADD_LAST_SUMS(sums, partial, count) }
#define ADD_LAST_SUMS(sums, partial, count) \
    if (!IN_PLACE) { \
        [[unroll]] for (int i_ = 0; i_ < count; i_++) { \
            add_sum(sums[i_], high[i_], ivec4(partial[i_])); \
            partial[i_] = FACTOR(0); \
        } \
    }

#endif

#define FAR 1073741824.0

void add_sum(inout ivec4 low, inout ivec4 high, ivec4 more) {
    ivec4 sum = low + more;
    if (LONG_SUMS) high += (more >> 31) + ivec4(lessThan(uvec4(sum), uvec4(low)));
    low = sum;
}

// (top, low) / 2^total for 1 <= total <= 62, halves up, modulo 2^32.
ivec4 long_shift(ivec4 top, uvec4 low, ivec4 total) {
    // Half of 2^total is added: in the low word where total is at most 32, else in the high one.
    bvec4 far = greaterThan(total, ivec4(32));
    uvec4 half_ = uvec4(1) << uvec4((total - 1) & 31);
    uvec4 sum = low + mix(half_, uvec4(0), far);
    top += ivec4(lessThan(sum, low)) + mix(ivec4(0), ivec4(half_), far);
    uvec4 move = uvec4(total & 31);
    uvec4 near_ = (sum >> move) | mix(uvec4(top) << (uvec4(32) - move & 31u), uvec4(0), equal(move, uvec4(0)));
    near_ = mix(near_, uvec4(top), equal(total, ivec4(32)));
    return mix(ivec4(near_), top >> (total - 32 & 31), far);
}

// (high, low) * q / 2^31 * 2^shift with q cut to 16 bits.
ivec4 wide_multiply(ivec4 high, ivec4 low, ivec4 q, ivec4 shift) {
    ivec4 factor = mix((q + 0x8000) >> 16, ivec4(0x7fff), greaterThanEqual(q, ivec4(0x7fff0000)));
    uvec4 carry, product;
    umulExtended(uvec4(low), uvec4(factor), carry, product);
    return long_shift(high * factor + ivec4(carry), product, clamp(15 - shift, ivec4(1), ivec4(62)));
}

// (high, low) * q / 2^31 * 2^shift, of three words.
ivec4 long_multiply(ivec4 high, ivec4 low, ivec4 q, ivec4 shift) {
    uvec4 carry, lowest;
    umulExtended(uvec4(low), uvec4(q), carry, lowest);
    ivec4 top, more;
    imulExtended(high, q, top, more);
    uvec4 middle = uvec4(more) + carry;
    top += ivec4(lessThan(middle, carry));
    ivec4 total = clamp(31 - shift, ivec4(1), ivec4(62));
    bvec4 far = greaterThan(total, ivec4(32));  // the lowest word is less than half
    return long_shift(mix(ivec4(middle), top, far), mix(lowest, middle, far), mix(total, total - 32, far));
}

// x * q / 2^31 * 2^shift, rounded once.
ivec4 single_multiply(ivec4 x, ivec4 q, ivec4 shift) {
    ivec4 top, low;
    imulExtended(x, q, top, low);
    return long_shift(top, uvec4(low), clamp(31 - shift, ivec4(1), ivec4(62)));
}

// x * q + shift of the bits of floats, halves to even.
vec4 float_multiply(vec4 x, ivec4 q, ivec4 shift) {
    precise vec4 real = x * intBitsToFloat(q);
    real += intBitsToFloat(shift);
    return clamp(roundEven(real), vec4(-FAR), vec4(FAR));
}

// The numbers that requantize a vec4 of output channels. `rounded`: half of the unit of a right shift,
// for rounding, plus the zero point of y in that unit.
struct Requantizer {
    ivec4 head, q, shift, bias, bias_high, rounded;
    ivec4 q2, shift2, low, high;  // ROUNDING 6
#if RESIDUAL
    ivec4 zeros, multipliers, shifts;
#endif
};

// That of number `m` of `m4`. Read once for many sums: CPU drivers read it anew wherever it stands.
// With SHUFFLE the lanes of a subgroup of 8 read a vec4 each and pass it round.
Requantizer requantizer(int m, int m4, ivec4 head) {
    Requantizer r;
    r.head = head;
#if SHUFFLE
    int lane = int(gl_LocalInvocationID.x) & 7;
    bool row = lane < (ROUNDING == 6 ? 7 : 4);
    ivec4 own = LOAD4(setting, row ? HEAD_ROWS + lane * m4 + m : RESIDUAL != 0 ? lane - 3 : 0);
#define NUMBERS(lane, place) subgroupShuffle(own, lane)
#else
#define NUMBERS(lane, place) LOAD4(setting, place)
#endif
    r.q = NUMBERS(0, HEAD_ROWS + m);
    r.shift = NUMBERS(1, HEAD_ROWS + m4 + m);
    r.bias = NUMBERS(2, HEAD_ROWS + 2 * m4 + m);
    if (LONG_SUMS) r.bias_high = NUMBERS(3, HEAD_ROWS + 3 * m4 + m);
    if (ROUNDING == 6) {
        r.q2 = NUMBERS(3, HEAD_ROWS + 3 * m4 + m);
        r.shift2 = NUMBERS(4, HEAD_ROWS + 4 * m4 + m);
        r.low = NUMBERS(5, HEAD_ROWS + 5 * m4 + m);
        r.high = NUMBERS(6, HEAD_ROWS + 6 * m4 + m);
    }
    if (ROUNDING == 4) r.rounded = ((ivec4(1) << r.shift) >> 1) + (ivec4(head.y) << r.shift);
#if RESIDUAL
    r.zeros = NUMBERS(4, 1);
    r.multipliers = NUMBERS(5, 2);
    r.shifts = NUMBERS(6, 3);
#endif
    return r;
}

// fixed_multiply(x, q, -shift) + zero point, in fewer steps. With two bits more, halves of the product
// are in its high word. Twice rounded, halves away from 0, it is as if 1 were off the negative ones.
ivec4 near_multiply(ivec4 x, Requantizer r) {
    ivec4 high, low;
    imulExtended(x << 2, r.q, high, low);
    ivec4 product = (high + 1) >> 1;
    return (product + r.rounded + (product >> 31)) >> r.shift;
}

// The result of a vec4 of sums.
ivec4 requantized(ivec4 low, ivec4 high, Requantizer r) {
    ivec4 sum = low + r.bias, v = sum;
    if (ROUNDING == 4) return clamp(near_multiply(sum, r), r.head.z, r.head.w);
    if (LONG_SUMS) {
        high += r.bias_high + ivec4(lessThan(uvec4(sum), uvec4(low)));
        v = ROUNDING == 7 ? long_multiply(high, sum, r.q, r.shift)
                          : wide_multiply(high, sum, r.q, r.shift);
    } else if (ROUNDING == 0) {
        v = fixed_multiply(sum, r.q, r.shift);
    } else if (ROUNDING == 3) {
        v = single_multiply(sum, r.q, r.shift);
    } else if (ROUNDING == 5) {
        v = ivec4(float_multiply(vec4(sum), r.q, r.shift));
    } else if (ROUNDING == 6) {
        vec4 between = clamp(float_multiply(vec4(sum), r.q, r.shift), vec4(r.low), vec4(r.high));
        v = ivec4(float_multiply(between, r.q2, r.shift2));
    }
    return clamp(v + r.head.y, r.head.z, r.head.w);
}

#if RESIDUAL
// v + other, each on its scale (QuantizedBinary "add").
ivec4 added(ivec4 v, ivec4 other_, Requantizer r) {
    ivec4 a = fixed_multiply((v - r.zeros.x) << r.zeros.z, ivec4(r.multipliers.x), ivec4(r.shifts.x));
    ivec4 b = fixed_multiply((other_ - r.zeros.y) << r.zeros.z, ivec4(r.multipliers.y), ivec4(r.shifts.y));
    ivec4 sum = fixed_multiply(a + b, ivec4(r.multipliers.z), ivec4(r.shifts.z));
    return clamp(sum + r.zeros.w, r.multipliers.w, r.shifts.w);
}
#endif

#endif
