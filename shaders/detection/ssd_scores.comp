#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "detection/list.glsl"

// The scores of all boxes in each class but the background, as far as they exceed the threshold.

INPUT1F(0, confidence);
OUTPUT1S(1, scores);  // [classes but the background, stride]

layout(constant_id = 10) const int CLASS_MAJOR = 0;

layout(push_constant) uniform P {
    int groups, count, stride, classes, background;
    float threshold;
} p;

void main() {
    int at = linear_lane();
    if (at >= p.groups * p.count) return;
    int group = at / p.count, box = at % p.count;
    int label = group + (p.background >= 0 && group >= p.background ? 1 : 0);
    float score = LOAD1(confidence, CLASS_MAJOR != 0 ? label * p.count + box : box * p.classes + label);
    STORE1(scores, group * p.stride + box, score > p.threshold ? score : NONE);
}
