#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1 WIDE=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// x [outer, first, middle, second, inner] with the first lengths[b] entries along one of the two named
// axes backwards, b along the other; `inner` counts vec4s where WIDE.
#if WIDE == 1
INPUT4(0, x);
OUTPUT4(2, y);
#define LOAD LOAD4
#define STORE STORE4
#else
INPUT1(0, x);
OUTPUT1(2, y);
#define LOAD LOAD1
#define STORE STORE1
#endif
INPUT1I(1, lengths);

layout(constant_id = 10) const int TIME_FIRST = 1;

layout(push_constant) uniform P { int count, chunk, first, middle, second, inner; } p;

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int row, place, rest, a, b, within, outer;
        divide_rest(i, p.inner, row, place);
        divide_rest(row, p.second, rest, b);
        divide_rest(rest, p.middle, rest, within);
        divide_rest(rest, p.first, outer, a);
        int size = TIME_FIRST != 0 ? p.first : p.second;
        int length = clamp(LOAD1(lengths, TIME_FIRST != 0 ? b : a), 0, size);
        int at = TIME_FIRST != 0 ? a : b, step = TIME_FIRST != 0 ? p.middle * p.second : 1;
        int moved = at < length ? length - 1 - at : at;
        STORE(y, i, LOAD(x, i + (moved - at) * step * p.inner));
    }
}
