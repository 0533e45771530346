#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1 WIDE=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// y[outer, i, inner] = x[outer, indices[i], inner]; `inner` counts vec4s where WIDE.
#if WIDE == 1
INPUT4(0, x);
OUTPUT4(2, y);
#define LOAD LOAD4
#define STORE STORE4
#define ENTRY VEC4
#else
INPUT1(0, x);
OUTPUT1(2, y);
#define LOAD LOAD1
#define STORE STORE1
#define ENTRY SCALAR
#endif
INPUT1I(1, indices);

layout(push_constant) uniform P {
    int count;
    int chunk;
    int index_count;
    int inner;
    int size;      // entries along the axis
    int mode;      // + 1: indices below 0 count from the end; + 2: entries outside are zeros
} p;

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int rest, place, outer, number;
        divide_rest(i, p.inner, rest, place);
        divide_rest(rest, p.index_count, outer, number);
        int at = LOAD1(indices, number);
        at += at < 0 && (p.mode & 1) != 0 ? p.size : 0;
        int near = clamp(at, 0, p.size - 1);
        ENTRY entry = LOAD(x, (outer * p.size + near) * p.inner + place);
        STORE(y, i, at != near && (p.mode & 2) != 0 ? ENTRY(0) : entry);
    }
}
