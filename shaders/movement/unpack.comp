#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1 WIDE=0,1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// C4 to LINEAR. WIDE: the spatial size is a multiple of 4; an item is 4 channels at 4 places,
// otherwise 4 elements of the output in a row.
#if WIDE
INPUT4(0, x);
#else
INPUT1(0, x);
#endif
OUTPUT4(1, y);
layout(push_constant) uniform P { int count, chunk, channels, channels4, spatial, elements; } p;

#if !WIDE
SCALAR element(int e) {
    int row, s, n, c;
    divide_rest(e, p.spatial, row, s);
    divide_rest(row, p.channels, n, c);
    return LOAD1(x, ((n * p.channels4 + (c >> 2)) * p.spatial + s) * 4 + (c & 3));
}
#endif

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
#if WIDE
        int rows, s, n, block, at = i * 4, columns = p.spatial >> 2;
        divide_rest(i, columns, rows, s);
        divide_rest(rows, p.channels4, n, block);
        VEC4 v0 = LOAD4(x, at), v1 = LOAD4(x, at + 1), v2 = LOAD4(x, at + 2), v3 = LOAD4(x, at + 3);
        int c = block * 4, to = (n * p.channels + c) * columns + s;
        STORE4(y, to, VEC4(v0.x, v1.x, v2.x, v3.x));
        if (c + 1 < p.channels) STORE4(y, to + columns, VEC4(v0.y, v1.y, v2.y, v3.y));
        if (c + 2 < p.channels) STORE4(y, to + columns * 2, VEC4(v0.z, v1.z, v2.z, v3.z));
        if (c + 3 < p.channels) STORE4(y, to + columns * 3, VEC4(v0.w, v1.w, v2.w, v3.w));
#else
        // The last item may reach behind the tensor; what it puts there is never read.
        int e = i * 4;
        ivec4 at = min(ivec4(e, e + 1, e + 2, e + 3), p.elements - 1);
        STORE4(y, i, VEC4(element(at.x), element(at.y), element(at.z), element(at.w)));
#endif
    }
}
