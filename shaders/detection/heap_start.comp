#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"

// The first boxes of each group in a heap that is still to be made; see heap.comp.

OUTPUT1I(0, heap);

layout(push_constant) uniform P {
    int groups, most;
} p;

void main() {
    int at = linear_lane();
    if (at >= p.groups * (1 + p.most)) return;
    int number = at % (1 + p.most);
    STORE1(heap, at, max(number - 1, 0));
}
