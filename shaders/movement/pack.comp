#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1 WIDE=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 HALF=1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 HALF=1 SINGLE=1
#pragma vknn variants ACCESS=0,1,2 ELEM=1 WIDE=0,1 BYTES=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// LINEAR to C4, with BYTES to C4B, with SINGLE from float32 to C4 of float16. WIDE: the
// spatial size is a multiple of 4; an item is 4 channels at 4 places, otherwise 4 channels at one place.
#if WIDE && defined(SINGLE)
INPUT4S(0, x);
#elif WIDE
INPUT4(0, x);
#elif defined(SINGLE)
INPUT1S(0, x);
#else
INPUT1(0, x);
#endif
#ifdef BYTES
OUTPUT1I(1, y);
#define PUT(i, v) STORE1(y, i, word_of(v))
#else
OUTPUT4(1, y);
#define PUT(i, v) STORE4(y, i, v)
#endif
layout(push_constant) uniform P { int count, chunk, channels, channels4, spatial; } p;

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int rows, s, n, block;
#if WIDE
        divide_rest(i, p.spatial >> 2, rows, s);
#else
        divide_rest(i, p.spatial, rows, s);
#endif
        divide_rest(rows, p.channels4, n, block);
        int last = p.channels - 1, c = block * 4;
        ivec4 row = n * p.channels + min(ivec4(c, c + 1, c + 2, c + 3), last);
#if WIDE
        row = row * (p.spatial >> 2) + s;
        VEC4 v0 = LOAD4(x, row.x), v1 = LOAD4(x, row.y), v2 = LOAD4(x, row.z), v3 = LOAD4(x, row.w);
        int at = i * 4;
        PUT(at, zero_padding_lanes(VEC4(v0.x, v1.x, v2.x, v3.x), block, p.channels));
        PUT(at + 1, zero_padding_lanes(VEC4(v0.y, v1.y, v2.y, v3.y), block, p.channels));
        PUT(at + 2, zero_padding_lanes(VEC4(v0.z, v1.z, v2.z, v3.z), block, p.channels));
        PUT(at + 3, zero_padding_lanes(VEC4(v0.w, v1.w, v2.w, v3.w), block, p.channels));
#else
        row = row * p.spatial + s;
        VEC4 v = VEC4(LOAD1(x, row.x), LOAD1(x, row.y), LOAD1(x, row.z), LOAD1(x, row.w));
        PUT(i, zero_padding_lanes(v, block, p.channels));
#endif
    }
}
