#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// C4: the channels of x and then those of w, whatever their number is modulo 4. An item is a vec4 of
// the output.
INPUT4(0, x);
INPUT4(1, w);
OUTPUT4(2, y);
layout(push_constant) uniform P {
    int count, chunk, spatial, channels_x, channels_w, blocks_x, blocks_w, blocks;
} p;

// Channels 4 * block - shift... of w, `row` being its first block.
VEC4 shifted(int row, int block, int shift, int s) {
    VEC4 high = LOAD4(w, (row + min(block, p.blocks_w - 1)) * p.spatial + s);
    if (shift != 0) {
        VEC4 low = LOAD4(w, (row + max(block - 1, 0)) * p.spatial + s);
        high = shift == 1 ? VEC4(low.w, high.xyz)
             : shift == 2 ? VEC4(low.zw, high.xy) : VEC4(low.yzw, high.x);
    }
    return high;
}

void main() {
    int whole = p.channels_x >> 2, shift = p.channels_x & 3;
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int row, s, n, block;
        divide_rest(i, p.spatial, row, s);
        divide_rest(row, p.blocks, n, block);
        VEC4 v = VEC4(0);
        if (block <= whole) v = LOAD4(x, (n * p.blocks_x + min(block, p.blocks_x - 1)) * p.spatial + s);
        if (block >= whole) {
            VEC4 u = shifted(n * p.blocks_w, block - whole, shift, s);
            ivec4 lanes = ivec4(0, 1, 2, 3) + (block - whole) * 4;
            v = VEC4(lanes.x < shift ? v.x : u.x, lanes.y < shift ? v.y : u.y,
                     lanes.z < shift ? v.z : u.z, lanes.w < shift ? v.w : u.w);
        }
        STORE4(y, i, zero_padding_lanes(v, block, p.channels_x + p.channels_w));
    }
}
