#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"

// Greedy suppression without sorting, a workgroup for each class of each image: again and again the best
// candidate is taken and those go that overlap it. A lane looks after each LANES-th box.
//
// found: how many there are so far, then index and score of each. left: the scores of the candidates.
// A dispatch finds those from number `first` to `last` - 1.
INPUT4F(0, boxes);
INPUT1F(1, scores);
INOUT1S(2, left);
INOUT1I(3, found);

layout(constant_id = 10) const int LANES = 1;
layout(constant_id = 11) const int SOFT = 0;
layout(constant_id = 12) const int IOU_INCLUSIVE = 0;
layout(constant_id = 13) const int SCORE_INCLUSIVE = 0;

layout(push_constant) uniform P {
    int groups, classes, count, most, first, last;
    float iou, score, decay;
} p;

// What is no candidate: the lowest finite number.
#define NONE uintBitsToFloat(0xff7fffffu)

shared float best_score[LANES];
shared int best_index[LANES];

bool above(float v) { return SCORE_INCLUSIVE != 0 ? v >= p.score : v > p.score; }

float overlap(vec4 a, vec4 b) {
    vec2 low_a = min(a.xy, a.zw), high_a = max(a.xy, a.zw), low_b = min(b.xy, b.zw), high_b = max(b.xy, b.zw);
    vec2 size_a = high_a - low_a, size_b = high_b - low_b;
    precise float area_a = size_a.x * size_a.y, area_b = size_b.x * size_b.y;
    vec2 sides = max(min(high_a, high_b) - max(low_a, low_b), vec2(0.0));
    precise float common_ = sides.x * sides.y, both = area_a + area_b;
    precise float either = both - common_;
    return area_a > 0.0 && area_b > 0.0 && either != 0.0 ? common_ / either : 0.0;
}

void main() {
    int lane = int(gl_LocalInvocationID.x), group = linear_group();
    if (group >= p.groups) return;
    int base = group * p.count, image = group / p.classes * p.count, list = group * (1 + 2 * p.most);
    // The dispatch before has found no more: all lanes see that.
    if (p.first > 0 && found[list] < p.first) return;
    float best = NONE;
    int at = p.count;
    for (int k = lane; k < p.count; k += LANES) {
        float v;
        if (p.first == 0) {
            v = LOAD1(scores, base + k);
            v = above(v) ? v : NONE;
            STORE1(left, base + k, v);
        } else {
            v = left[base + k];
        }
        at = v > best ? k : at;
        best = v > best ? v : best;
    }
    for (int number = p.first; number < p.last; number++) {
        best_score[lane] = best;
        best_index[lane] = at;
        barrier();
        for (int half_ = LANES / 2; half_ > 0; half_ /= 2) {
            if (lane < half_) {
                float other = best_score[lane + half_];
                int place = best_index[lane + half_];
                if (other > best_score[lane] || (other == best_score[lane] && place < best_index[lane])) {
                    best_score[lane] = other;
                    best_index[lane] = place;
                }
            }
            barrier();
        }
        float taken = best_score[0];
        int winner = best_index[0];
        barrier();
        if (winner >= p.count) break;
        if (lane == 0) {
            STORE1(found, list, number + 1);
            STORE1(found, list + 1 + 2 * number, winner);
            STORE1(found, list + 2 + 2 * number, floatBitsToInt(taken));
        }
        vec4 box = LOAD4(boxes, image + winner);
        best = NONE;
        at = p.count;
        for (int k = lane; k < p.count; k += LANES) {
            float v = left[base + k];
            if (v > NONE) {
                float iou = overlap(LOAD4(boxes, image + k), box);
                bool gone = k == winner || (IOU_INCLUSIVE != 0 ? iou >= p.iou : iou > p.iou);
                if (SOFT != 0) {
                    v *= exp(p.decay * iou * iou);
                    gone = gone || !above(v);
                }
                v = gone ? NONE : v;
                STORE1(left, base + k, v);
                at = v > best ? k : at;
                best = v > best ? v : best;
            }
        }
    }
}
