#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "detection/list.glsl"

// The scores of the boxes of several images in each class but the background, as far as they exceed the
// threshold; a lane a score. With BEST a lane takes a box, whose best class (but class 0) goes behind
// all scores; its score has to reach the threshold, and to exceed -1.

INPUT1F(0, confidence);  // [images, count, classes]
OUTPUT1S(1, scores);     // [images, classes but the background (or 1), stride]

layout(constant_id = 10) const int BEST = 0;

layout(push_constant) uniform P {
    int images, used, count, stride, classes, background;  // used: groups of an image
    float threshold;
} p;

void main() {
    int at = linear_lane();
    if (at >= p.images * p.used * p.count) return;
    int group = at / p.count, box = at % p.count;
    int from = (group / p.used * p.count + box) * p.classes, to = group * p.stride + box;
    if (BEST != 0) {
        float best = -1.0;
        int label = 0;
        for (int c = 1; c < p.classes; c++) {
            float score = LOAD1(confidence, from + c);
            label = score > best ? c : label;
            best = score > best ? score : best;
        }
        STORE1(scores, to, label > 0 && best >= p.threshold ? best : NONE);
        STORE1(scores, p.images * p.stride + to, float(label));
        return;
    }
    int number = group % p.used;
    int label = number + (p.background >= 0 && number >= p.background ? 1 : 0);
    float score = LOAD1(confidence, from + label);
    STORE1(scores, to, score > p.threshold ? score : NONE);
}
