#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// C4: the channels of x become channels offset, offset + 1... of y, whatever offset is modulo 4.
// An item is a block of four channels of y that x has a part in, at one place. Its lanes are stored
// one by one, because another dispatch fills the rest of the block; the last one (LAST) also writes
// the zeros behind the last channel.
INPUT4(0, x);
OUTPUT1(1, y);
layout(constant_id = 10) const int LAST = 0;
layout(push_constant) uniform P {
    int count, chunk, spatial, offset, channels, blocks_in, blocks_out, first, covered;
} p;

void main() {
    int shift = p.offset & 3;
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int row, s, n, block;
        divide_rest(i, p.spatial, row, s);
        divide_rest(row, p.covered, n, block);
        // Channel 4 * block + k - shift of x goes to lane k of block first + block of y.
        int base = n * p.blocks_in;
        VEC4 low = LOAD4(x, (base + max(block - 1, 0)) * p.spatial + s);
        VEC4 high = LOAD4(x, (base + min(block, p.blocks_in - 1)) * p.spatial + s);
        VEC4 v = shift == 0 ? high
               : shift == 1 ? VEC4(low.w, high.xyz)
               : shift == 2 ? VEC4(low.zw, high.xy) : VEC4(low.yzw, high.x);
        int to = ((n * p.blocks_out + p.first + block) * p.spatial + s) * 4;
        int c = block * 4 - shift;
        int end = LAST != 0 ? c + 4 : p.channels;
        v.x = c < p.channels ? v.x : SCALAR(0);
        v.y = c + 1 < p.channels ? v.y : SCALAR(0);
        v.z = c + 2 < p.channels ? v.z : SCALAR(0);
        v.w = c + 3 < p.channels ? v.w : SCALAR(0);
        if (c >= 0 && c < end) STORE1(y, to, v.x);
        if (c + 1 >= 0 && c + 1 < end) STORE1(y, to + 1, v.y);
        if (c + 2 >= 0 && c + 2 < end) STORE1(y, to + 2, v.z);
        if (c + 3 < end) STORE1(y, to + 3, v.w);
    }
}
