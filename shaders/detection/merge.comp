#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "detection/list.glsl"

// The boxes that suppression kept in all groups become rows of y in order of falling score, equal ones in
// order of their groups, `limit` of them at most. A lane looks in each other group for how many of its
// boxes come before its own.

INPUT4S(0, sorted);
INPUT1I(1, kept);  // [groups, 1 + most]: their number, then their places
OUTPUT1F(2, y);
INOUT1I(3, count);

layout(constant_id = 10) const int FORM = 0;  // a row: 0 label, score, box; 1 box; 2 score

layout(push_constant) uniform P {
    int groups, most, limit;
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
    if (at == 0) {
        int all = 0;
        for (int g = 0; g < p.groups; g++) all += LOAD1(kept, g * (1 + p.most));
        STORE1(count, 0, min(all, p.limit));
    }
    if (at >= p.groups * p.most) return;
    int group = at / p.most, number = at % p.most;
    if (number >= LOAD1(kept, group * (1 + p.most))) return;
    vec4 head = head_of(group, number);
    int place = number;
    for (int g = 0; g < p.groups; g++)
        if (g != group) place += ahead(g, head.x, g < group);
    if (place >= p.limit) return;
    if (FORM == 2) {
        STORE1(y, place, head.x);
        return;
    }
    vec4 tail = LOAD4(sorted, 2 * (group * p.most + LOAD1(kept, group * (1 + p.most) + 1 + number)) + 1);
    int to = place * (FORM == 0 ? 6 : 4);
    if (FORM == 0) {
        STORE1(y, to++, head.y);
        STORE1(y, to++, head.x);
    }
    STORE1(y, to, head.z);
    STORE1(y, to + 1, head.w);
    STORE1(y, to + 2, tail.x);
    STORE1(y, to + 3, tail.y);
}
