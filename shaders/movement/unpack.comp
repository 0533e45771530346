#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1 WIDE=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 HALF=1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 HALF=1 SINGLE=1
#pragma vknn variants ACCESS=0,1,2 ELEM=1 WIDE=0,1 BYTES=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// C4 to LINEAR, with BYTES from C4B, with SINGLE from C4 of float16 to float32. WIDE: the
// spatial size is a multiple of 4; an item is 4 channels at 4 places, otherwise 4 elements of the output in a row.
#ifdef BYTES
INPUT1I(0, x);
#define VECTOR(i) bytes_of(LOAD1(x, i), BYTES_UNSIGNED)
#elif WIDE
INPUT4(0, x);
#define VECTOR(i) LOAD4(x, i)
#else
INPUT1(0, x);
#endif
#ifdef SINGLE
OUTPUT4S(1, y);
#else
OUTPUT4(1, y);
#endif
layout(push_constant) uniform P { int count, chunk, channels, channels4, spatial, last; } p;

#if !WIDE
// The element at (n, c, s); moves on to the next one.
SCALAR next(inout int n, inout int c, inout int s) {
    int vector = (n * p.channels4 + (c >> 2)) * p.spatial + s;
#ifdef BYTES
    SCALAR v = VECTOR(vector)[c & 3];
#else
    SCALAR v = LOAD1(x, vector * 4 + (c & 3));
#endif
    s += 1;
    int carry = s == p.spatial ? 1 : 0;
    s = carry != 0 ? 0 : s;
    c += carry;
    carry = c == p.channels ? 1 : 0;
    c = carry != 0 ? 0 : c;
    n = min(n + carry, p.last);
    return v;
}
#endif

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
#if WIDE
        int rows, s, n, block, at = i * 4, columns = p.spatial >> 2;
        divide_rest(i, columns, rows, s);
        divide_rest(rows, p.channels4, n, block);
        VEC4 v0 = VECTOR(at), v1 = VECTOR(at + 1), v2 = VECTOR(at + 2), v3 = VECTOR(at + 3);
        int c = block * 4, to = (n * p.channels + c) * columns + s;
        STORE4(y, to, VEC4(v0.x, v1.x, v2.x, v3.x));
        if (c + 1 < p.channels) STORE4(y, to + columns, VEC4(v0.y, v1.y, v2.y, v3.y));
        if (c + 2 < p.channels) STORE4(y, to + columns * 2, VEC4(v0.z, v1.z, v2.z, v3.z));
        if (c + 3 < p.channels) STORE4(y, to + columns * 3, VEC4(v0.w, v1.w, v2.w, v3.w));
#else
        // The last item may reach behind the tensor; what it puts there is never read.
        int row, s, n, c;
        divide_rest(i * 4, p.spatial, row, s);
        divide_rest(row, p.channels, n, c);
        VEC4 v;
        v.x = next(n, c, s);
        v.y = next(n, c, s);
        v.z = next(n, c, s);
        v.w = next(n, c, s);
        STORE4(y, i, v);
#endif
    }
}
