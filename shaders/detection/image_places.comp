#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"

// The place of each box that suppression kept among all of its image, best first, equal ones in order of
// class. A lane looks in each other class for how many of its boxes come before its own.
//
// LABELLED: an image has one list, of boxes of all classes, and the best `limit` of them are put in order of
// class: places holds which comes where.

INPUT4S(0, sorted);
INPUT1I(1, kept);     // [images, classes, 1 + most]: their number, then their places in sorted
OUTPUT1I(2, places);  // [images, classes, most]

layout(constant_id = 10) const int LABELLED = 0;

layout(push_constant) uniform P {
    int images, classes, most, limit;
} p;

vec4 head_of(int group, int number) {
    return LOAD4(sorted, 2 * (group * p.most + LOAD1(kept, group * (1 + p.most) + 1 + number)));
}

// How many boxes of a group have more than the score, or with `ties` as much.
int ahead(int group, float score, bool ties) {
    int low = 0, high = LOAD1(kept, group * (1 + p.most));
    while (low < high) {
        int middle = (low + high) / 2;
        float other = head_of(group, middle).x;
        bool before = other > score || (ties && other == score);
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    return low;
}

void main() {
    int at = linear_lane();
    if (at >= p.images * p.classes * p.most) return;
    int group = at / p.most, number = at % p.most;
    int all = LOAD1(kept, group * (1 + p.most)), place = number;
    if (LABELLED != 0) all = min(all, p.limit);
    if (number >= all) return;
    vec4 head = head_of(group, number);
    if (LABELLED != 0) {
        place = 0;
        for (int i = 0; i < all; i++) {
            float label = head_of(group, i).y;
            place += label < head.y || (label == head.y && i < number) ? 1 : 0;
        }
        STORE1(places, group * p.most + place, number);
        return;
    }
    int first = group / p.classes * p.classes;
    for (int g = first; g < first + p.classes; g++)
        if (g != group) place += ahead(g, head.x, g < group);
    STORE1(places, at, place);
}
