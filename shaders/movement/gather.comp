#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1 WIDE=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 HALF=1
#pragma vknn variants ACCESS=0,1,2 ELEM=1 WIDE=0,1 BYTES=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// Every element of the output is one element of the input, or a constant: transposes, slices,
// padding, broadcasting, in either layout.
//
// The output is seen as up to six axes, the last ones of `size`; where it is C4, axis CHANNEL counts
// blocks of four channels. A place along axis d goes through `before` and `extent` (PAD), then to
// the input by `stride`; along axis SPLIT it is a channel of a C4 input, `stride` is that of a block.
// WIDE: whole vec4s are moved; sizes and strides count vec4s. BYTES: the input is in C4B.
#ifndef BYTES
#define BYTES 0
#endif
#if BYTES
INPUT1(0, x);
#define VECTOR(i) bytes_of(LOAD1(x, i), BYTES_UNSIGNED)
#define ELEMENT(i) byte_of(LOAD1(x, (i) >> 2), (i) & 3)
#elif WIDE
INPUT4(0, x);
#define VECTOR(i) LOAD4(x, i)
#else
INPUT1(0, x);
#define ELEMENT(i) LOAD1(x, i)
#endif
INPUT1(1, values);
OUTPUT4(2, y);

layout(constant_id = 10) const int RANK = 6;
layout(constant_id = 11) const int CHANNEL = -1;  // axis of the output's channels; -1: of no interest
layout(constant_id = 12) const int OUT_C4 = 0;
layout(constant_id = 13) const int SPLIT = -1;
layout(constant_id = 14) const int PAD = 0;       // 0 none, 1 constant, 2 edge, 3 reflect, 4 wrap, 5 symmetric
layout(constant_id = 15) const int VALUES = 0;    // constant by channel, from `values`
layout(constant_id = 16) const int SHUFFLE = 0;   // groups of a channel shuffle
layout(constant_id = 17) const int PADDING_LANES = 0;      // lanes behind the last channel need zeroing

layout(push_constant) uniform P {
    int count, chunk, elements, base, channels, split_step, fill;
    int size[6], stride[6], before[6], extent[6];
} p;

int byte_of(int word, int k) {
    int shifted = word << (24 - 8 * k);
    return BYTES_UNSIGNED != 0 ? int(uint(shifted) >> 24) : shifted >> 24;
}

#if ELEM == 0
#define FILL intBitsToFloat(p.fill)
#else
#define FILL p.fill
#endif

// A place along axis d of the output as one along the input's; `inside` turns false where PAD puts
// a constant.
int mapped(int d, int c, inout bool inside) {
    if (d == SPLIT) c *= p.split_step;
    c -= p.before[d];
    if (PAD != 0) {
        int last = p.extent[d] - 1;
        if (PAD == 1) inside = inside && c >= 0 && c <= last;
        if (PAD == 3) c = last - abs(last - abs(c));
        if (PAD == 5) {  // a place before the first is as far behind the edge as before it, less one
            c = max(c, -1 - c);
            c = min(c, 2 * last + 1 - c);
        }
        if (PAD == 4) c -= quotient(c, last + 1) * (last + 1);
        c = clamp(c, 0, last);
    }
    return c;
}

int offset(int d, int c) {
    int at = c * p.stride[d];
    if (d == SPLIT) {
        if (SHUFFLE != 0) {
            int group, member;
            divide_rest(c, SHUFFLE, member, group);
            c = group * (p.channels / SHUFFLE) + member;
        }
        at = (c >> 2) * p.stride[d] + (c & 3);
    }
    return at;
}

// Axis d, written out so that every index is a constant: adds to `address`, takes away from `rest`.
// Along the channels of a C4 output each lane has its own place (lane_offset).
#define WALK(d) \
    if (RANK > 5 - d) { \
        int c = rest; \
        if (RANK > 6 - d) divide_rest(c, p.size[d], rest, c); \
        if (d == CHANNEL) channel = c; \
        if (WIDE != 0 || OUT_C4 == 0) { \
            address += offset(d, mapped(d, c, inside)); \
        } else { \
            if (d != CHANNEL) address += offset(d, mapped(d, c, inside)); \
        } \
    }

// Address in the input of item (or element) e of the output and whether there is one; the place
// along CHANNEL.
int source(int e, out bool inside, out int channel) {
    inside = true;
    channel = 0;
    int address = p.base, rest = e;
    WALK(5)
    WALK(4)
    WALK(3)
    WALK(2)
    WALK(1)
    WALK(0)
    return address;
}

SCALAR constant(int channel) {
    SCALAR v = FILL;
    if (VALUES != 0) v = LOAD1(values, channel);
    return v;
}

#if WIDE
void move(int i) {
    bool inside;
    int block;
    int from = source(i, inside, block);
    VEC4 v = VECTOR(from);
    if (PAD == 1) {
        int c = block * 4, last = p.channels - 1;
        VEC4 fill = VEC4(FILL);
        if (VALUES != 0 && OUT_C4 == 0) {
            fill = VEC4(constant(block));
        } else if (VALUES != 0) {
            fill = VEC4(constant(min(c, last)), constant(min(c + 1, last)),
                        constant(min(c + 2, last)), constant(min(c + 3, last)));
        }
        v = inside ? v : fill;
    }
    if (PADDING_LANES != 0) v = zero_padding_lanes(v, block, p.channels);
    STORE4(y, i, v);
}
#else
SCALAR element(int from, bool inside, int channel) {
    SCALAR v = ELEMENT(from);
    if (PAD == 1) v = inside ? v : constant(channel);
    return v;
}

// Lane c & 3 of a C4 output.
SCALAR lane(int address, bool inside, int c) {
#define LANE_OFFSET(d) if (CHANNEL == d) address += offset(d, mapped(d, c, inside));
    LANE_OFFSET(5)
    LANE_OFFSET(4)
    LANE_OFFSET(3)
    LANE_OFFSET(2)
    LANE_OFFSET(1)
    LANE_OFFSET(0)
    return element(address, inside, c);
}

SCALAR single(int e) {
    bool inside;
    int channel;
    int from = source(e, inside, channel);
    return element(from, inside, channel);
}

void move(int i) {
    VEC4 v;
    if (OUT_C4 != 0) {
        bool inside;
        int block;
        int from = source(i, inside, block), c = block * 4, last = p.channels - 1;
        v = VEC4(lane(from, inside, c), lane(from, inside, min(c + 1, last)),
                 lane(from, inside, min(c + 2, last)), lane(from, inside, min(c + 3, last)));
        v = zero_padding_lanes(v, block, p.channels);
    } else {
        // The last item may reach behind the tensor; what it puts there is never read.
        int e = i * 4, last = p.elements - 1;
        v = VEC4(single(e), single(min(e + 1, last)), single(min(e + 2, last)),
                 single(min(e + 3, last)));
    }
    STORE4(y, i, v);
}
#endif

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) move(i);
}
