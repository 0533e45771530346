#version 450
#pragma vknn variants ACCESS=0,1,2 WIDE=0,1
#pragma vknn variants ACCESS=0,1,2 WIDE=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"
#include "common/mathf.glsl"

// y = a * sigmoid(b): of each row of x, `row` long, a is the first run of `part` elements, b the second.
// WIDE: in vec4s.
#if WIDE
INPUT4F(0, x);
OUTPUT4F(1, y);
#else
INPUT1F(0, x);
OUTPUT1F(1, y);
#endif

layout(constant_id = 10) const int PADDING_LANES = 0;  // C4: there are lanes behind the last channel

layout(push_constant) uniform P { int total, chunk, row, part, plane, blocks, channels; } p;

void main() {
    FOR_EACH_ITEM(i, p.total, p.chunk) {
        int outer, within;
        divide_rest(i, p.part, outer, within);
        int at = outer * p.row + within;
#if WIDE
        vec4 v = LOAD4(x, at) * m_sigmoid(LOAD4(x, at + p.part));
        if (PADDING_LANES != 0) {
            int plane = quotient(i, p.plane);
            v = zero_padding_lanes(v, plane - quotient(plane, p.blocks) * p.blocks, p.channels);
        }
        STORE4(y, i, v);
#else
        STORE1(y, i, LOAD1(x, at) * m_sigmoid(vec4(LOAD1(x, at + p.part))).x);
#endif
    }
}
