#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1 WIDE=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// y = x where c holds, else w, with broadcasting, in either layout.
#if WIDE
INPUT4(0, x);
INPUT4(1, w);
INPUT4I(2, c);
#else
INPUT1(0, x);
INPUT1(1, w);
INPUT1I(2, c);
#endif
OUTPUT4(3, y);

layout(constant_id = 14) const int PADDING_LANES = 0;  // lanes behind the last channel need zeroing

layout(push_constant) uniform P {
    int count, chunk, elements, spatial, blocks, channels;
    int size[6], stride_x[6], stride_w[6], stride_c[6];
} p;

#define CHOICE
#include "common/broadcast.glsl"

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        VEC4 v, u;
        load(i, v, u);
        v = mix(u, v, notEqual(chosen, ivec4(0)));
        if (PADDING_LANES != 0) {
            int row = quotient(i, p.spatial);
            v = zero_padding_lanes(v, row - quotient(row, p.blocks) * p.blocks, p.channels);
        }
        STORE4(y, i, v);
    }
}
