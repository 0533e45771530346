#version 450
#pragma vknn variants ACCESS=0,1,2 FROM_INT=0,1 TO_INT=0,1
#pragma vknn variants ACCESS=0,1,2 FROM_INT=0 TO_INT=0,1 HALF=1
#pragma vknn variants ACCESS=0,1,2 FROM_INT=1 TO_INT=0 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// y = the bits of x as elements of another width. Elements of 8 and 16 bits lie in an int each;
// floats of 16 bits in a float. An item is an element of y.
#if FROM_INT
INPUT1I(0, x);
#else
INPUT1F(0, x);
#endif
#if TO_INT
OUTPUT1I(1, y);
#else
OUTPUT1F(1, y);
#endif

layout(constant_id = 10) const int FROM = 32;     // bits of an element of x
layout(constant_id = 11) const int TO = 32;       // bits of an element of y
layout(constant_id = 12) const int SIGNED = 0;    // y has a sign
layout(constant_id = 13) const int IS_BOOL = 0;   // y is 1 where a bit is set

layout(push_constant) uniform P { int count, chunk; } p;

// SwiftShader's packHalf2x16 makes NaN of infinities, and infinities of NaN.
int half_bits(float v) {
    int word = floatBitsToInt(v), kept = word >> 13 & 0x3ff;
    if ((word & 0x7fffffff) < 0x7f800000) return int(packHalf2x16(vec2(v, 0.0)));
    if ((word & 0x7fffff) == 0) return word >> 16 & 0x8000 | 0x7c00;
    return word >> 16 & 0x8000 | 0x7c00 | (kept != 0 ? kept : 0x200);
}

int bits_of(int i) {
#if FROM_INT
    int word = LOAD1(x, i);
#else
    int word = FROM == 16 ? half_bits(LOAD1(x, i)) : floatBitsToInt(LOAD1(x, i));
#endif
    return FROM == 32 ? word : word & ((1 << (FROM & 31)) - 1);
}

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int word = 0;
        if (TO >= FROM) {
            for (int k = 0; k < TO / FROM; ++k) word |= bits_of(i * (TO / FROM) + k) << (k * FROM & 31);
        } else {
            int parts = FROM / TO, whole = quotient(i, parts);
            word = bits_of(whole) >> ((i - whole * parts) * TO);
        }
        int rest = 32 - TO;
        if (SIGNED != 0) word = (word << rest) >> rest;
        else if (TO < 32) word &= (1 << (TO & 31)) - 1;
#if TO_INT
        STORE1(y, i, IS_BOOL != 0 ? int(word != 0) : word);
#else
        STORE1(y, i, TO == 16 ? unpackHalf2x16(uint(word)).x : intBitsToFloat(word));
#endif
    }
}
