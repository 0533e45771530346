#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1 WIDE=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"
#if ELEM == 1
#include "elementwise/integers.glsl"
#endif

// Windows along an axis, `inner` elements (vec4s where WIDE) apart. Elements stand `base` places apart behind
// `pad` places; places without an element count nothing.
#if WIDE == 1
INPUT4(0, x);
OUTPUT4(1, y);
#define VALUES VEC4
#define LOAD LOAD4
#define STORE STORE4
#else
INPUT1(0, x);
OUTPUT1(1, y);
#define VALUES SCALAR
#define LOAD LOAD1
#define STORE STORE1
#endif

layout(constant_id = 10) const int JOIN = 0;  // 0 sum, 1 product, 2 maximum, 3 minimum
layout(constant_id = 11) const int WRAP = 0;  // bits of an integer (wrap of integers.glsl)

layout(push_constant) uniform P {
    int count;
    int chunk;
    int inner;
    int size_in;   // elements along the axis
    int size_out;  // windows along the axis
    int window;    // places of a window
    int stride;
    int dilation;
    int base;
    int pad;
    int none;      // bits of what a window without elements gives
} p;

bool unordered(float v) { return isnan(v); }
bool unordered(int v) { return false; }

SCALAR chosen(SCALAR a, SCALAR b) {
    return unordered(b) || (JOIN == 2 ? b > a : b < a) ? b : a;
}

#if WIDE == 1
VEC4 chosen(VEC4 a, VEC4 b) {
    return VEC4(chosen(a.x, b.x), chosen(a.y, b.y), chosen(a.z, b.z), chosen(a.w, b.w));
}
#endif

VALUES joined(VALUES a, VALUES b) {
    if (JOIN == 0) return a + b;
    if (JOIN == 1) return a * b;
    return chosen(a, b);
}

void main() {
#if ELEM == 1
    VALUES none = VALUES(p.none);
#else
    VALUES none = VALUES(intBitsToFloat(p.none));
#endif
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int rest, place, outer, number;
        divide_rest(i, p.inner, rest, place);
        divide_rest(rest, p.size_out, outer, number);
        int first = number * p.stride - p.pad;
        VALUES v = none;
        for (int k = 0; k < p.window; k++) {
            int at = first + k * p.dilation, element, hole;
            divide_rest(max(at, 0), p.base, element, hole);
            if (at >= 0 && hole == 0 && element < p.size_in)
                v = joined(v, LOAD(x, (outer * p.size_in + element) * p.inner + place));
        }
#if ELEM == 1
#if WIDE == 1
        if (WRAP != 0) v = wrap(v, WRAP);
#else
        if (WRAP != 0) v = wrap(ivec4(v), WRAP).x;
#endif
#endif
        STORE(y, i, v);
    }
}
