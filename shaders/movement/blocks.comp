#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1 WIDE=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// Blocks of places moved between channels and up to three spatial axes, in either direction.
//
// TO_SPACE: place (z, y, x) of the output lies in a block, and which of its `places` it is selects
// the channel of the input. Otherwise that is the channel's doing. DCR: the place is the outer part
// of a channel's number, otherwise the inner one. WIDE: C4 with whole vec4s of channels; channels
// count blocks of four.
#if WIDE
INPUT4(0, x);
#else
INPUT1(0, x);
#endif
OUTPUT4(1, y);

layout(constant_id = 10) const int TO_SPACE = 0;
layout(constant_id = 11) const int DCR = 0;
layout(constant_id = 12) const int IN_C4 = 0;
layout(constant_id = 13) const int OUT_C4 = 0;

layout(push_constant) uniform P {
    int count, chunk, elements, places;
    int block_d, block_h, block_w;
    int in_c, in_d, in_h, in_w;
    int out_c, out_d, out_h, out_w;
} p;

// Index in the input of an element at (row n, channel c, z, h, w) of it.
int input_index(int n, int c, int z, int h, int w) {
    int inside = (z * p.in_h + h) * p.in_w + w, size = p.in_d * p.in_h * p.in_w;
    if (IN_C4 != 0) return ((n * ((p.in_c + 3) >> 2) + (c >> 2)) * size + inside) * 4 + (c & 3);
    return (n * p.in_c + c) * size + inside;
}

// The same for an element at (n, c, z, h, w) of the output.
int source(int n, int c, int z, int h, int w) {
    int channel, place;
    if (TO_SPACE != 0) {
        int pz, ph, pw;
        divide_rest(z, p.block_d, z, pz);
        divide_rest(h, p.block_h, h, ph);
        divide_rest(w, p.block_w, w, pw);
        place = (pz * p.block_h + ph) * p.block_w + pw;
        channel = DCR != 0 ? place * p.out_c + c : c * p.places + place;
        return input_index(n, channel, z, h, w);
    }
    if (DCR != 0) divide_rest(c, p.in_c, place, channel);
    else divide_rest(c, p.places, channel, place);
    int rest, pz, ph, pw;
    divide_rest(place, p.block_w, rest, pw);
    divide_rest(rest, p.block_h, pz, ph);
    return input_index(n, channel, z * p.block_d + pz, h * p.block_h + ph, w * p.block_w + pw);
}

// Takes apart an index of the output whose channel axis has `channels` steps.
void unravel(int i, int channels, out int n, out int c, out int z, out int h, out int w) {
    int rest;
    divide_rest(i, p.out_w, rest, w);
    divide_rest(rest, p.out_h, rest, h);
    divide_rest(rest, p.out_d, rest, z);
    divide_rest(rest, channels, n, c);
}

#if WIDE
void move(int i) {
    int n, c, z, h, w;
    unravel(i, p.out_c, n, c, z, h, w);
    STORE4(y, i, LOAD4(x, source(n, c, z, h, w)));
}
#else
SCALAR single(int e) {
    int n, c, z, h, w;
    unravel(e, p.out_c, n, c, z, h, w);
    return LOAD1(x, source(n, c, z, h, w));
}

void move(int i) {
    VEC4 v;
    if (OUT_C4 != 0) {
        int n, block, z, h, w, last = p.out_c - 1;
        unravel(i, (p.out_c + 3) >> 2, n, block, z, h, w);
        int c = block * 4;
        v = VEC4(LOAD1(x, source(n, c, z, h, w)), LOAD1(x, source(n, min(c + 1, last), z, h, w)),
                 LOAD1(x, source(n, min(c + 2, last), z, h, w)),
                 LOAD1(x, source(n, min(c + 3, last), z, h, w)));
        v = zero_padding_lanes(v, block, p.out_c);
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
