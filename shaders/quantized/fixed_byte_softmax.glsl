// FixedByteSoftmax behind the look-up of its terms, in 32-bit fixed point as gemmlowp computes it.

#include "quantized/fixed_point.glsl"

// Integer bits of the sum of a row; its terms have none.
const int SUM_BITS = 12;

// What a term adds to the sum.
int summand_of(int term) { return rounding_shift(ivec4(term), ivec4(SUM_BITS)).x; }

int product_of(int a, int b) { return doubling_high(ivec4(a), ivec4(b)).x; }

// 1 / (1 + x) for x in [0, 1) without integer bits: three steps of Newton with 2 integer bits, from a
// line through 48/17 and 32/17.
int reciprocal_of(int x) {
    int half_ = int((uint(x) + 0x80000000u) >> 1);
    int y = 1515870810 + product_of(half_, -1010580540);
    for (int i = 0; i < 3; ++i) {
        int rest = (1 << 29) - product_of(half_, y);
        y += saturating_left(ivec4(product_of(y, rest)), 2).x;
    }
    return saturating_left(ivec4(y), 1).x;
}

// The inverse of a sum, and the right shift behind the product with it.
struct Inverse {
    int factor, right;
};

Inverse inverse_of(int sum, int bits) {
    int zeros = 31 - findMSB(uint(sum));
    int factor = reciprocal_of(int((uint(sum) << uint(zeros)) - 0x80000000u));
    return Inverse(factor, SUM_BITS - zeros + 31 - bits);
}

// Of an int less than half is left behind more than 31 bits: of long rows of equal numbers.
int share_of(int term, Inverse inverse) {
    if (inverse.right > 31) return 0;
    return rounding_shift(ivec4(product_of(inverse.factor, term)), ivec4(inverse.right)).x;
}
