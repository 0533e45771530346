// bfloat16, the upper half of a float32, as bits: of one in the lower half of a word (scalars, and vec4s
// as texels), or of two in each word (vec4s in storage buffers). Nothing but integers is asked for, of
// which every device with storage of 16 bits has enough.

#ifndef VKNN_BFLOAT16_GLSL
#define VKNN_BFLOAT16_GLSL

float from_bfloat16(uint bits) { return uintBitsToFloat(bits << 16); }
vec4 from_bfloat16(uvec4 bits) { return uintBitsToFloat(bits << 16); }
vec4 from_bfloat16(uvec2 pairs) {
    return uintBitsToFloat(uvec4(pairs << 16, pairs & 0xffff0000u).xzyw);
}

// The bits whose upper half is the nearest bfloat16, halves to even. A NaN must not be carried over into
// an infinity.
uint nearest_bfloat16(float v) {
    uint bits = floatBitsToUint(v);
    bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return nan ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u);
}

uvec4 nearest_bfloat16(vec4 v) {
    uvec4 bits = floatBitsToUint(v);
    bvec4 nan = greaterThan(bits & 0x7fffffffu, uvec4(0x7f800000u));
    return mix(bits + 0x7fffu + (bits >> 16 & 1u), bits | 0x400000u, nan);
}

uint to_bfloat16(float v) { return nearest_bfloat16(v) >> 16; }
uvec2 to_bfloat16(vec4 v) {
    uvec4 bits = nearest_bfloat16(v);
    return bits.xz >> 16 | bits.yw & 0xffff0000u;
}

#endif
