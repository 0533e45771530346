// The operators that are defined on integers, by the codes of common/opcodes.glsl. Statements like
// UNARY_OP and BINARY_OP there. Arithmetic wraps around; what is divided by 0 is 0.

#ifndef VKNN_INTEGERS_GLSL
#define VKNN_INTEGERS_GLSL

// a / b towards zero, component by component; the most negative number by -1 wraps.
ivec4 int_div(ivec4 a, ivec4 b) {
    bvec4 none = equal(b, ivec4(0)), minus = equal(b, ivec4(-1));
    ivec4 q = a / mix(mix(b, ivec4(1), none), ivec4(1), minus);
    return mix(mix(q, -a, minus), ivec4(0), none);
}

ivec4 int_fmod(ivec4 a, ivec4 b) {
    return mix(a - int_div(a, b) * b, ivec4(0), equal(b, ivec4(0)));
}

ivec4 int_floor_div(ivec4 a, ivec4 b) {
    ivec4 rest = int_fmod(a, b);
    ivec4 below = ivec4(notEqual(rest, ivec4(0))) * ivec4(lessThan(rest ^ b, ivec4(0)));
    return int_div(a, b) - below;
}

ivec4 int_mod(ivec4 a, ivec4 b) {
    ivec4 rest = int_fmod(a, b);
    return rest + b * ivec4(notEqual(rest, ivec4(0))) * ivec4(lessThan(rest ^ b, ivec4(0)));
}

// Of a negative power only 1 and -1 leave something behind.
int int_pow(int a, int b) {
    int result = 1, base = a;
    for (int rest = b; rest > 0; rest >>= 1) {
        if ((rest & 1) != 0) result *= base;
        base *= base;
    }
    int inverse = a == 1 ? 1 : a == -1 ? 1 - 2 * (b & 1) : 0;
    return b < 0 ? inverse : result;
}

ivec4 int_pow(ivec4 a, ivec4 b) {
    return ivec4(int_pow(a.x, b.x), int_pow(a.y, b.y), int_pow(a.z, b.z), int_pow(a.w, b.w));
}

#define UNARY_INTEGER(code, y, v, a, b) \
    switch (code) { \
    case OP_ABS: y = abs(v); break; \
    case OP_NEG: y = -(v); break; \
    case OP_SQUARE: y = (v) * (v); break; \
    case OP_RELU: y = max(v, ivec4(0)); break; \
    case OP_SIGN: y = sign(v); break; \
    case OP_CLIP: y = min(max(v, ivec4(a)), ivec4(b)); break; \
    case OP_THRESHOLD: y = ivec4(greaterThan(v, ivec4(a))); break; \
    }

#define BINARY_INTEGER(code, y, v, w) \
    switch (code) { \
    case BOP_ADD: y = (v) + (w); break; \
    case BOP_SUB: y = (v) - (w); break; \
    case BOP_MUL: y = (v) * (w); break; \
    case BOP_DIV: y = int_div(v, w); break; \
    case BOP_MAX: y = max(v, w); break; \
    case BOP_MIN: y = min(v, w); break; \
    case BOP_POW: y = int_pow(v, w); break; \
    case BOP_FMOD: y = int_fmod(v, w); break; \
    case BOP_FLOOR_DIV: y = int_floor_div(v, w); break; \
    case BOP_PRELU: y = mix(v, (v) * (w), lessThan(v, ivec4(0))); break; \
    case BOP_MOD: y = int_mod(v, w); break; \
    }

// The value in `bits` bits, wrapped around: below 0 signed, above unsigned; 0 leaves it alone.
ivec4 wrap(ivec4 v, int bits) {
    if (bits == 0) return v;
    int shift = 32 - abs(bits);
    return bits < 0 ? (v << shift) >> shift : v & int((1u << uint(abs(bits) & 31)) - 1u);
}

#endif
