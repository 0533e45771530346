#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// What detection/greedy.comp has found, as rows of `width`: indices, then -1; scores, then 0; how many.
INPUT1I(0, found);
OUTPUT1I(1, indices);
OUTPUT1F(2, scores);
OUTPUT1I(3, counts);

layout(push_constant) uniform P { int count, chunk, width, most; } p;

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int group, number;
        divide_rest(i, p.width, group, number);
        int list = group * (1 + 2 * p.most), there = LOAD1(found, list);
        bool here = number < there;
        int from = here ? list + 1 + 2 * number : list;
        STORE1(indices, i, here ? LOAD1(found, from) : -1);
        STORE1(scores, i, here ? intBitsToFloat(LOAD1(found, from + 1)) : 0.0);
        if (number == 0) STORE1(counts, group, there);
    }
}
