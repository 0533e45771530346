#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1 WIDE=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// x with a block of it taken from u; both in the same layout.
//
// The tensor is seen as six axes, the last ones of `size`; the block is `extent` long from `start`
// on. Axis CHANNEL of a C4 tensor counts blocks of four channels, of which each lane is looked at.
// WIDE: the block consists of whole vec4s; everything counts vec4s.
INPUT4(0, x);
#if WIDE
INPUT4(1, u);
#else
INPUT1(1, u);
#endif
OUTPUT4(2, y);

layout(constant_id = 10) const int CHANNEL = -1;

layout(push_constant) uniform P {
    int count, chunk, elements;
    int size[6], start[6], extent[6], stride[6];
} p;

// Axis d: takes its place off `rest`; adds to `address`.
#define WALK(d) { \
        int c; \
        if (d != 0) divide_rest(rest, p.size[d], rest, c); \
        else c = rest; \
        if (d == CHANNEL) channel = c * 4 - p.start[d]; \
        else { \
            c -= p.start[d]; \
            inside = inside && c >= 0 && c < p.extent[d]; \
            address += c * p.stride[d]; \
        } \
    }

// Address in u of item (or element) e and whether it is there; the first channel of a C4 item.
int source(int e, out bool inside, out int channel) {
    inside = true;
    channel = 0;
    int address = 0, rest = e;
    WALK(5)
    WALK(4)
    WALK(3)
    WALK(2)
    WALK(1)
    WALK(0)
    return address;
}

#if WIDE
void move(int i) {
    bool inside;
    int channel, from = source(i, inside, channel);
    VEC4 v = LOAD4(x, i), w = LOAD4(u, inside ? from : 0);
    STORE4(y, i, inside ? w : v);
}
#else
SCALAR lane(SCALAR old, int address, bool inside, int c) {
    int d = max(CHANNEL, 0);
    bool here = inside && c >= 0 && c < p.extent[d];
    SCALAR new_ = LOAD1(u, here ? address + (c >> 2) * p.stride[d] + (c & 3) : 0);
    return here ? new_ : old;
}

SCALAR single(SCALAR old, int e) {
    bool inside;
    int channel, from = source(min(e, p.elements - 1), inside, channel);
    SCALAR new_ = LOAD1(u, inside ? from : 0);
    return inside ? new_ : old;
}

void move(int i) {
    VEC4 v = LOAD4(x, i);
    if (CHANNEL >= 0) {
        bool inside;
        int c, from = source(i, inside, c);
        v = VEC4(lane(v.x, from, inside, c), lane(v.y, from, inside, c + 1),
                 lane(v.z, from, inside, c + 2), lane(v.w, from, inside, c + 3));
    } else {
        int e = i * 4;
        v = VEC4(single(v.x, e), single(v.y, e + 1), single(v.z, e + 2), single(v.w, e + 3));
    }
    STORE4(y, i, v);
}
#endif

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) move(i);
}
