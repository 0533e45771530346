#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// C4: a channel shuffle with two groups of an even number of channels. Four channels of the output
// are two neighbours of each half, which lie in one vec4 because they begin at an even channel.
INPUT4(0, x);
OUTPUT4(1, y);
layout(push_constant) uniform P { int count, chunk, spatial, blocks, channels; } p;

void main() {
    int half_ = p.channels >> 1;
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int row, s, n, block;
        divide_rest(i, p.spatial, row, s);
        divide_rest(row, p.blocks, n, block);
        int low = block * 2, high = min(half_ + low, p.channels - 1);
        int first = n * p.blocks;
        VEC4 a = LOAD4(x, (first + (low >> 2)) * p.spatial + s);
        VEC4 b = LOAD4(x, (first + (high >> 2)) * p.spatial + s);
        a.xy = (low & 2) != 0 ? a.zw : a.xy;
        b.xy = (high & 2) != 0 ? b.zw : b.xy;
        STORE4(y, i, zero_padding_lanes(VEC4(a.x, b.x, a.y, b.y), block, p.channels));
    }
}
