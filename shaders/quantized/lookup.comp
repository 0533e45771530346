#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// y = table[x - first], x held within the table. An item is a vec4.

INPUT4I(0, x);
#if ELEM == 0
INPUT1S(1, table);
#else
INPUT1I(1, table);
#endif
OUTPUT4(2, y);

layout(constant_id = 10) const int PADDING_LANES = 0;  // C4: there are lanes behind the last channel

layout(push_constant) uniform P {
    int count, chunk, first, last;
    int spatial, blocks, channels;
} p;

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        ivec4 at = clamp(LOAD4(x, i) - p.first, ivec4(0), ivec4(p.last));
        VEC4 v = VEC4(LOAD1(table, at.x), LOAD1(table, at.y), LOAD1(table, at.z), LOAD1(table, at.w));
        if (PADDING_LANES != 0) {
            int row = quotient(i, p.spatial);
            v = zero_padding_lanes(v, row - quotient(row, p.blocks) * p.blocks, p.channels);
        }
        STORE4(y, i, v);
    }
}
