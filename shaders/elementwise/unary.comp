#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// y = op(x) and an epilogue, in either layout: an item is a vec4.
INPUT4(0, x);
OUTPUT4(1, y);
#if ELEM == 0
#define EPILOGUE_BINDING 2
#define EPILOGUE_OPERANDS 2
#include "common/epilogue.glsl"
#else
#include "common/opcodes.glsl"
#include "elementwise/integers.glsl"
#endif

layout(constant_id = 10) const int CODE = 0;
layout(constant_id = 11) const float A = 0.0;
layout(constant_id = 12) const float B = 0.0;
layout(constant_id = 13) const int LOCATE = 0;  // the epilogue asks for the channel
layout(constant_id = 14) const int PADDING_LANES = 0;    // lanes behind the last channel need zeroing
layout(constant_id = 15) const int WRAP = 0;

layout(push_constant) uniform P {
    int count, chunk, spatial, blocks, channels, a, b;
} p;

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        VEC4 v = LOAD4(x, i);
        int channel = 0;
        if (LOCATE != 0) {
            int row = quotient(i, p.spatial);
            channel = row - quotient(row, p.blocks) * p.blocks;
        }
#if ELEM == 0
        UNARY_OP(CODE, v, v, A, B)
        v = epilogue4(v, i, channel);
#else
        UNARY_INTEGER(CODE, v, v, p.a, p.b)
        v = wrap(v, WRAP);
#endif
        if (PADDING_LANES != 0) v = zero_padding_lanes(v, channel, p.channels);
        STORE4(y, i, v);
    }
}
