#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1 WIDE=0,1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// Every element of the output is one element of the input, or a constant: transposes, slices,
// padding, broadcasting, in either layout.
//
// The output is seen as up to six axes, the last ones of `size`; where it is C4, axis CHANNEL counts
// blocks of four channels. A place along axis d goes through `before` and `extent` (PAD), then to
// the input by `stride`; along axis SPLIT it is a channel of a C4 input, `stride` is that of a block.
// WIDE: whole vec4s are moved; sizes and strides count vec4s.
#if WIDE
INPUT4(0, x);
#else
INPUT1(0, x);
#endif
INPUT1(1, values);
OUTPUT4(2, y);

layout(constant_id = 10) const int RANK = 6;
layout(constant_id = 11) const int CHANNEL = -1;  // axis of the output's channels; -1: of no interest
layout(constant_id = 12) const int OUT_C4 = 0;
layout(constant_id = 13) const int SPLIT = -1;
layout(constant_id = 14) const int PAD = 0;       // 0 none, 1 constant, 2 edge, 3 reflect
layout(constant_id = 15) const int VALUES = 0;    // constant by channel, from `values`
layout(constant_id = 16) const int SHUFFLE = 0;   // groups of a channel shuffle
layout(constant_id = 17) const int TAIL = 0;      // lanes behind the last channel need zeroing

layout(push_constant) uniform P {
    int count, chunk, elements, base, channels, split_step, fill;
    int size[6], stride[6], before[6], extent[6];
} p;

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
    if (PAD == 0) return c;
    int last = p.extent[d] - 1;
    if (PAD == 1) inside = inside && c >= 0 && c <= last;
    if (PAD == 3) c = last - abs(last - abs(c));
    return clamp(c, 0, last);
}

int offset(int d, int c) {
    if (d != SPLIT) return c * p.stride[d];
    if (SHUFFLE != 0) {
        int per_group = p.channels / SHUFFLE;
        c = (c % SHUFFLE) * per_group + c / SHUFFLE;
    }
    return (c >> 2) * p.stride[d] + (c & 3);
}

void decode(int e, out int at[6]) {
    for (int d = 5; d > 6 - RANK; --d) divide_rest(e, p.size[d], e, at[d]);
    at[6 - RANK] = e;
}

// Address in the input and whether there is one. Lane k of a C4 output has channel 4 * block + k.
int source(int at[6], int k, out bool inside) {
    inside = true;
    int address = p.base;
    for (int d = 5; d >= 6 - RANK; --d) {
        int c = OUT_C4 != 0 && WIDE == 0 && d == CHANNEL ? at[d] * 4 + k : at[d];
        address += offset(d, mapped(d, c, inside));
    }
    return address;
}

SCALAR constant(int channel) { return VALUES != 0 ? LOAD1(values, channel) : FILL; }

#if WIDE
void move(int i) {
    int at[6];
    decode(i, at);
    bool inside;
    int from = source(at, 0, inside);
    VEC4 v = LOAD4(x, from);
    if (PAD == 1) {
        if (!inside) {
            v = VEC4(FILL);
            if (VALUES != 0) {
                int c = at[CHANNEL < 0 ? 0 : CHANNEL] * 4, last = p.channels - 1;
                v = VEC4(constant(min(c, last)), constant(min(c + 1, last)),
                         constant(min(c + 2, last)), constant(min(c + 3, last)));
            }
        }
    }
    if (TAIL != 0) v = zero_tail(v, at[CHANNEL < 0 ? 0 : CHANNEL], p.channels);
    STORE4(y, i, v);
}
#else
SCALAR element(int at[6], int k) {
    bool inside;
    int c = at[CHANNEL < 0 ? 0 : CHANNEL] * (OUT_C4 != 0 ? 4 : 1) + k;
    int from = source(at, k, inside);
    SCALAR v = LOAD1(x, from);
    if (PAD == 1) {
        if (!inside) v = constant(c);
    }
    return v;
}

void move(int i) {
    int at[6];
    if (OUT_C4 != 0) {
        decode(i, at);
        int block = at[CHANNEL < 0 ? 0 : CHANNEL], last = p.channels - 1 - block * 4;
        VEC4 v = VEC4(element(at, 0), element(at, min(1, last)),
                      element(at, min(2, last)), element(at, min(3, last)));
        STORE4(y, i, zero_tail(v, block, p.channels));
        return;
    }
    // The last item may reach behind the tensor; what it puts there is never read.
    int last = p.elements - 1;
    VEC4 v;
    decode(min(i * 4, last), at);
    v.x = element(at, 0);
    decode(min(i * 4 + 1, last), at);
    v.y = element(at, 0);
    decode(min(i * 4 + 2, last), at);
    v.z = element(at, 0);
    decode(min(i * 4 + 3, last), at);
    v.w = element(at, 0);
    STORE4(y, i, v);
}
#endif

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) move(i);
}
