#version 450
#pragma vknn variants ACCESS=0,1,2 TIES=0,1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "detection/list.glsl"

// Puts the best `most` boxes of each group in order of falling score, equal ones in their own order: a
// box's place is the number of boxes of its group before it. sorted[2 * place] must start as NONE.
//
// scores [groups, stride], stride a multiple of 4; behind a group's last box they are NONE. Where boxes
// have labels of their own (ROWS 3) these are behind all scores, and equal scores come by label first.
// TIES: a group with equal scores that matter is marked at the beginning of its part of `heap`.

INPUT4S(0, scores);
INPUT4S(1, rows);
OUTPUT4S(2, sorted);
#if TIES
OUTPUT1I(3, heap);
#endif

// Which rows are a group's: 0 its own, 1 all groups have the same, 2 and 3 those of its image, or of its
// label there. With 3 labels come with the scores, otherwise they are groups' numbers.
layout(constant_id = 10) const int ROWS = 0;
layout(constant_id = 11) const int LAST_FIRST = 0;  // equal scores: the last box first

layout(push_constant) uniform P {
    int groups, count, stride, most;
    int skipped;  // where a group's label is its number: from this one on one more
    int classes;  // groups of an image
    int lists;    // of rows that an image has: 1, or one for each label
} p;

void main() {
    int at = linear_lane();
    if (at >= p.groups * p.count) return;
    int group = at / p.count, own = at % p.count;
    int first = group * p.stride / 4, labels = p.groups * p.stride / 4 + first;
    float score = LOAD4(scores, first + own / 4)[own % 4];
    if (is_none(score)) return;
    int number = ROWS == 2 ? group % p.classes : group;
    int label = number + (number >= p.skipped ? 1 : 0);
    if (ROWS == 3) label = int(LOAD4(scores, labels + own / 4)[own % 4]);
    int before = 0, larger = 0, same = 0;
    for (int i = 0; i < p.stride / 4; i++) {
        vec4 other = LOAD4(scores, first + i);
        ivec4 index = 4 * i + ivec4(0, 1, 2, 3);
        ivec4 above = ivec4(greaterThan(other, vec4(score)));
        ivec4 equals = ivec4(equal(other, vec4(score)));
        ivec4 earlier = ivec4(lessThan(index, ivec4(own)));
        if (LAST_FIRST != 0) earlier = ivec4(greaterThan(index, ivec4(own)));
        if (ROWS == 3 && any(greaterThan(equals, ivec4(0)))) {
            ivec4 their = ivec4(LOAD4(scores, labels + i));
            earlier = ivec4(lessThan(their, ivec4(label))) + ivec4(equal(their, ivec4(label))) * earlier;
        }
        ivec4 ahead = above + equals * earlier;
        before += ahead.x + ahead.y + ahead.z + ahead.w;
        if (TIES != 0) {
            larger += above.x + above.y + above.z + above.w;
            same += equals.x + equals.y + equals.z + equals.w;
        }
    }
#if TIES
    if (same > 1 && larger < p.most) STORE1(heap, group * (1 + p.most), 1);
#endif
    if (before >= p.most) return;
    int row = ROWS == 1 ? own : at;
    if (ROWS >= 2) {
        int image = ROWS == 2 ? group / p.classes : group;
        row = (image * p.lists + (p.lists > 1 ? label : 0)) * p.count + own;
    }
    vec4 head = LOAD4(rows, 2 * row);
    int place = group * p.most + before;
    STORE4(sorted, 2 * place, vec4(score, ROWS == 0 ? head.y : float(label), head.zw));
    STORE4(sorted, 2 * place + 1, LOAD4(rows, 2 * row + 1));
}
