#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"

// Boxes in the order of a heap, where that differs from the one they have; see heap.comp.

INPUT1I(0, heap);
INPUT1S(1, scores);  // [groups, stride]
INPUT4S(2, rows);
OUTPUT4S(3, sorted);

layout(push_constant) uniform P {
    int groups, count, stride, most;
} p;

void main() {
    int at = linear_lane();
    if (at >= p.groups * p.most) return;
    int group = at / p.most, list = group * (1 + p.most);
    if (LOAD1(heap, list) == 0) return;
    int box = LOAD1(heap, list + 1 + at % p.most), row = group * p.count + box;
    vec4 head = LOAD4(rows, 2 * row);
    STORE4(sorted, 2 * at, vec4(LOAD1(scores, group * p.stride + box), head.yzw));
    STORE4(sorted, 2 * at + 1, LOAD4(rows, 2 * row + 1));
}
