#version 450
#pragma vknn variants ACCESS=0,1,2 LOAD=0,1 CELLS=0,1
#pragma vknn variants ACCESS=0,1,2 LOAD=0,1 CELLS=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// Between states [directions, batch, outputs] and [directions, batch, units] and the state buffer of
// recurrent/steps. LOAD 1: into the buffer, for its first step; 0: out of it. CELLS 0: there is no c.

#if LOAD == 1
OUTPUT1S(0, state);
INPUT1F(1, h);
#if CELLS == 1
INPUT1F(2, c);
#endif
#else
INPUT1S(0, state);
OUTPUT1F(1, h);
#if CELLS == 1
OUTPUT1F(2, c);
#endif
#endif

layout(constant_id = 10) const int HAS_H = 1;
layout(constant_id = 11) const int HAS_C = 1;

layout(push_constant) uniform P {
    int count;    // items: scalars of the buffer, or of both states
    int chunk;
    int slots;    // scalars of an entry in the buffer
    int outputs;
    int units;
    int h_at;     // places in an entry
    int c_at;
    int batch;
    int directions;
    int inner;    // 1: states are [batch, directions, ...]
} p;

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int entry, place;
#if LOAD == 1
        divide_rest(i, p.slots, entry, place);
        int of_h = place - p.h_at, of_c = place - p.c_at;
#else
        divide_rest(i, p.outputs + (CELLS == 1 ? p.units : 0), entry, place);
        int of_h = place, of_c = place - p.outputs;
#endif
        int d, b;
        divide_rest(entry, p.batch, d, b);
        int row = p.inner != 0 ? b * p.directions + d : entry;
#if LOAD == 1
        float v = 0.0;
        if (HAS_H != 0 && of_h >= 0 && of_h < p.outputs) v = LOAD1(h, row * p.outputs + of_h);
#if CELLS == 1
        if (HAS_C != 0 && of_c >= 0 && of_c < p.units) v = LOAD1(c, row * p.units + of_c);
#endif
        STORE1(state, i, v);
#else
        int from = entry * p.slots;
        if (of_h < p.outputs) STORE1(h, row * p.outputs + of_h, LOAD1(state, from + p.h_at + of_h));
#if CELLS == 1
        else STORE1(c, row * p.units + of_c, LOAD1(state, from + p.c_at + of_c));
#endif
#endif
    }
}
