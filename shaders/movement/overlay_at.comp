#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1 WIDE=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// x with a block of it taken from u, where data say; row-major.
//
// The tensor is seen as six axes, the last ones of `size`; the block is `extent` long and begins at
// `unit` times the start of the axis, moved so that the block fits. Four bits of `axes` say which
// start an axis has; 15: none. WIDE: the block consists of whole vec4s; everything counts vec4s.
INPUT4(0, x);
#if WIDE
INPUT4(1, u);
#else
INPUT1(1, u);
#endif
INPUT1I(2, starts);
OUTPUT4(3, y);

layout(push_constant) uniform P {
    int count, chunk, elements, axes;
    int size[6], extent[6], unit[6];
} p;

// Where the block begins along axis d, of which it may be counted in units of more than one.
#define BEGIN(d) { \
        int axis = (p.axes >> (4 * d)) & 15; \
        begin[d] = 0; \
        if (axis != 15) begin[d] = min(max(LOAD1(starts, axis), 0), \
            quotient(p.size[d] - p.extent[d], p.unit[d])) * p.unit[d]; \
    }

// Axis d: takes its place off `rest`; adds to `address`.
#define WALK(d) { \
        int c; \
        if (d != 0) divide_rest(rest, p.size[d], rest, c); \
        else c = rest; \
        c -= begin[d]; \
        inside = inside && c >= 0 && c < p.extent[d]; \
        address += c * stride; \
        stride *= p.extent[d]; \
    }

int begin[6];

// Address in u of item (or element) e, and whether it is there.
int source(int e, out bool inside) {
    inside = true;
    int address = 0, stride = 1, rest = e;
    WALK(5)
    WALK(4)
    WALK(3)
    WALK(2)
    WALK(1)
    WALK(0)
    return address;
}

#if WIDE
VEC4 taken(VEC4 old, int i) {
    bool inside;
    int from = source(i, inside);
    VEC4 new_ = LOAD4(u, inside ? from : 0);
    return inside ? new_ : old;
}
#else
SCALAR single(SCALAR old, int e) {
    bool inside;
    int from = source(min(e, p.elements - 1), inside);
    SCALAR new_ = LOAD1(u, inside ? from : 0);
    return inside ? new_ : old;
}

VEC4 taken(VEC4 old, int i) {
    int e = i * 4;
    return VEC4(single(old.x, e), single(old.y, e + 1), single(old.z, e + 2), single(old.w, e + 3));
}
#endif

void main() {
    BEGIN(0)
    BEGIN(1)
    BEGIN(2)
    BEGIN(3)
    BEGIN(4)
    BEGIN(5)
    FOR_EACH_ITEM(i, p.count, p.chunk) STORE4(y, i, taken(LOAD4(x, i), i));
}
