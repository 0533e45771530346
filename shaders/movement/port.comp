#version 450
#pragma vknn variants ACCESS=0
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"
#include "common/bfloat16.glsl"

// y = x in another element type and order of axes, as NumPy's astype and transpose make it; floats beyond
// the range of integers become its ends. Both lie dense, elements of 1 and 2 bytes side by side in words;
// an item is a word of y. Nothing but words is read and written, so that every device can.
INPUT1I(0, x);
OUTPUT1I(1, y);

// Element types, numbered as in bundles (vknn.bundle.schema.ElementType), and bfloat16.
const int FLOAT32 = 0, FLOAT16 = 1, INT8 = 2, UINT8 = 3, INT16 = 4, UINT16 = 5, INT32 = 6, UINT32 = 7,
          INT64 = 8, UINT64 = 9, BOOL = 10, FLOAT64 = 11, BFLOAT16 = 12;

layout(constant_id = 10) const int FROM = 0;   // type of x; not FLOAT64
layout(constant_id = 11) const int TO = 0;     // type of y; FLOAT64 only of floats
layout(constant_id = 12) const int AXES = 0;   // 0: the order stays
layout(constant_id = 13) const int ROUNDED = 0;  // floats become the nearest integer, halves to even
layout(constant_id = 14) const int NAN_HIGH = 0;  // NaN becomes the largest integer

// size: elements of y; sizes: of y's axes; strides: in elements of x; first: the element of x at y's first.
layout(push_constant) uniform P { int count, chunk, size, first, sizes[8], strides[8]; } p;

bool is_float(int type) { return type == FLOAT32 || type == FLOAT16 || type == BFLOAT16; }

// log2 of the bytes of an element
int width_of(int type) {
    if (type == INT8 || type == UINT8 || type == BOOL) return 0;
    if (type == FLOAT16 || type == BFLOAT16 || type == INT16 || type == UINT16) return 1;
    return type == INT64 || type == UINT64 || type == FLOAT64 ? 3 : 2;
}

// Both by integers: packHalf2x16 and its inverse may flush what is tiny, and SwiftShader's exchanges
// infinities and NaN.
uint from_float16(uint bits) {
    uint sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
    if (rest >= 0x7c00u) return sign | 0x7f800000u | (rest & 0x3ffu) << 13;
    if (rest >= 0x400u) return sign | ((rest << 13) + 0x38000000u);
    return sign | floatBitsToUint(float(rest) * 5.9604644775390625e-8);  // 2^-24
}

uint to_float16(uint bits) {
    uint sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) return sign | 0x7e00u | (rest >> 13 & 0x1ffu);
    if (rest >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and more
    if (rest < 0x38800000u) return sign | uint(roundEven(uintBitsToFloat(rest) * 16777216.0));
    return sign | (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13;
}

// The float32 (its bits) nearest to a positive integer of two words, halves to even. SwiftShader's own
// conversion of an unsigned integer may be one off.
uint nearest(uvec2 v) {
    if ((v.x | v.y) == 0u) return 0u;
    int lead = v.y != 0u ? 32 + findMSB(v.y) : findMSB(v.x), shift = 63 - lead;
    if (shift >= 32) v = uvec2(0u, v.x << (shift - 32));
    else if (shift > 0) v = uvec2(v.x << shift, v.y << shift | v.x >> (32 - shift));
    uint digits = v.y >> 8, rest = v.y & 0xffu;
    bool up = rest > 0x80u || (rest == 0x80u && (v.x != 0u || (digits & 1u) != 0u));
    return (uint(126 + lead) << 23) + digits + uint(up);
}

uvec2 negative(uvec2 v) { return uvec2(~v.x + 1u, ~v.y + uint(v.x == 0u)); }

// The integer of a float32 (its bits) without what is behind the point, of two words, within y's range;
// of a NaN 0, or as of infinity
uvec2 whole(uint bits) {
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        if (NAN_HIGH == 0) return uvec2(0u);
        bits = 0x7f800000u;
    }
    int shift = int(bits >> 23 & 0xffu) - 150, width = width_of(TO);
    uint digits = bits & 0x7fffffu | 0x800000u;
    uvec2 v = uvec2(0u), most = uvec2(~0u, width == 3 ? ~0u : 0u);
    if (shift > 40) v = uvec2(~0u);
    else if (shift >= 32) v.y = digits << (shift - 32);
    else if (shift > 0) v = uvec2(digits << shift, digits >> (32 - shift));
    else if (shift > -24) v.x = digits >> -shift;
    bool negated = (bits & 0x80000000u) != 0u;
    bool has_sign = TO == INT8 || TO == INT16 || TO == INT32 || TO == INT64;
    if (width < 2) most.x = (1u << (8 << width)) - 1u;
    if (has_sign) most = uvec2(most.x >> 1 | most.y << 31, most.y >> 1);
    if (negated) most = has_sign ? uvec2(most.x + 1u, most.y + uint(most.x == ~0u)) : uvec2(0u);
    if (v.y > most.y || (v.y == most.y && v.x > most.x)) v = most;
    return negated ? negative(v) : v;
}

uvec2 to_float64(uint bits) {
    uint sign = bits & 0x80000000u, digits = bits & 0x7fffffu;
    int power = int(bits >> 23 & 0xffu);
    if (power == 0) {
        if (digits == 0u) return uvec2(0u, sign);
        int lead = 23 - findMSB(digits);
        power = 1 - lead;
        digits = digits << lead & 0x7fffffu;
    }
    uint wide = power == 255 ? 0x7ffu : uint(power + 896);
    return uvec2(digits << 29, sign | wide << 20 | digits >> 3);
}

// Element i of x: the bits of a float32, or an integer of two words
uvec2 loaded(int i) {
    int width = width_of(FROM);
    if (width == 3) return uvec2(LOAD1(x, 2 * i), LOAD1(x, 2 * i + 1));
    uint word = uint(LOAD1(x, width == 2 ? i : i >> (2 - width)));
    int bits = 8 << width, place = width == 2 ? 0 : (i & (4 >> width) - 1) * bits;
    if (is_float(FROM)) {
        if (FROM == FLOAT32) return uvec2(word, 0u);
        word = word >> place & 0xffffu;
        return uvec2(FROM == FLOAT16 ? from_float16(word) : word << 16, 0u);
    }
    if (FROM == INT8 || FROM == INT16 || FROM == INT32) {
        int value = bitfieldExtract(int(word), place, bits);
        return uvec2(value, value >> 31);
    }
    return uvec2(bitfieldExtract(word, place, bits), 0u);
}

uint float_of(uvec2 v) {
    bool negated = FROM != UINT64 && (v.y & 0x80000000u) != 0u;
    return negated ? nearest(negative(v)) | 0x80000000u : nearest(v);
}

// What it is in y: a word, or of 8 bytes two
uvec2 converted(uvec2 v) {
    bool from_float = is_float(FROM);
    if (TO == BOOL) return uvec2(from_float ? v.x << 1 != 0u : (v.x | v.y) != 0u, 0u);
    if (FROM == BOOL) v.x = uint(v.x != 0u);
    if (is_float(TO) || TO == FLOAT64) {
        uint bits = from_float ? v.x : float_of(v);
        if (TO == FLOAT64) return to_float64(bits);
        if (TO == FLOAT16) return uvec2(to_float16(bits), 0u);
        return uvec2(TO == BFLOAT16 ? nearest_bfloat16(uintBitsToFloat(bits)) >> 16 : bits, 0u);
    }
    if (!from_float) return v;
    if (ROUNDED != 0) v.x = floatBitsToUint(roundEven(uintBitsToFloat(v.x)));
    return whole(v.x);
}

int place_in_x(int i) {
    if (AXES == 0) return i;
    int place = p.first;
    for (int axis = AXES - 1; axis > 0; --axis) {
        int rows, own;
        divide_rest(i, p.sizes[axis], rows, own);
        place += own * p.strides[axis];
        i = rows;
    }
    return place + i * p.strides[0];
}

void main() {
    int width = width_of(TO);
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        uint word = 0u;
        if (width == 3) {
            uvec2 v = converted(loaded(place_in_x(i >> 1)));
            word = (i & 1) == 0 ? v.x : v.y;
        } else if (width == 2) {
            word = converted(loaded(place_in_x(i))).x;
        } else {
            int each = 4 >> width, bits = 8 << width;
            for (int k = 0; k < each; ++k) {
                int element = i * each + k;
                if (element >= p.size) break;
                uint own = converted(loaded(place_in_x(element))).x;
                word |= (own & (1u << bits) - 1u) << k * bits;
            }
        }
        STORE1(y, i, int(word));
    }
}
