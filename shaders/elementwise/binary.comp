#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1 WIDE=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// y = op(x, w) and an epilogue, with broadcasting, in either layout. An item is a vec4 of the output.
#if WIDE
INPUT4(0, x);
INPUT4(1, w);
#else
INPUT1(0, x);
INPUT1(1, w);
#endif
OUTPUT4(2, y);
#if ELEM == 0
#define EPILOGUE_BINDING 3
#define EPILOGUE_OPERANDS 1
#include "common/epilogue.glsl"
#else
#include "common/opcodes.glsl"
#include "elementwise/integers.glsl"
#endif

layout(constant_id = 10) const int CODE = 0;
layout(constant_id = 13) const int LOCATE = 0;  // the epilogue asks for the channel
layout(constant_id = 14) const int PADDING_LANES = 0;    // lanes behind the last channel need zeroing
layout(constant_id = 15) const int WRAP = 0;

layout(push_constant) uniform P {
    int count, chunk, elements, spatial, blocks, channels;
    int size[6], stride_x[6], stride_w[6];
} p;

#include "common/broadcast.glsl"

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        VEC4 v, u;
        load(i, v, u);
        int channel = 0;
        if (LOCATE != 0) {
            int row = quotient(i, p.spatial);
            channel = row - quotient(row, p.blocks) * p.blocks;
        }
#if ELEM == 0
        BINARY_OP(CODE, v, v, u)
        v = epilogue4(v, i, channel);
#else
        BINARY_INTEGER(CODE, v, v, u)
        v = wrap(v, WRAP);
#endif
        if (PADDING_LANES != 0) v = zero_padding_lanes(v, channel, p.channels);
        STORE4(y, i, v);
    }
}
