#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "detection/list.glsl"

// Puts the best `most` boxes of each group in order of falling score, equal ones in their own order: a
// box's place is the number of boxes of its group before it. sorted[2 * place] must start as NONE.
//
// scores [groups, stride], stride a multiple of 4; behind a group's last box they are NONE.

INPUT4S(0, scores);
INPUT4S(1, rows);
OUTPUT4S(2, sorted);

layout(constant_id = 10) const int SHARED_ROWS = 0;  // all groups have the same boxes

layout(push_constant) uniform P {
    int groups, count, stride, most;
    int skipped;  // where rows are shared, a group's label is its number, from this one on one more
} p;

void main() {
    int at = linear_lane();
    if (at >= p.groups * p.count) return;
    int group = at / p.count, own = at % p.count;
    int first = group * p.stride / 4;
    float score = LOAD4(scores, first + own / 4)[own % 4];
    if (is_none(score)) return;
    int before = 0;
    for (int i = 0; i < p.stride / 4; i++) {
        vec4 other = LOAD4(scores, first + i);
        ivec4 index = 4 * i + ivec4(0, 1, 2, 3);
        ivec4 earlier = ivec4(greaterThan(other, vec4(score)))
            + ivec4(equal(other, vec4(score))) * ivec4(lessThan(index, ivec4(own)));
        before += earlier.x + earlier.y + earlier.z + earlier.w;
    }
    if (before >= p.most) return;
    int row = SHARED_ROWS != 0 ? own : at;
    vec4 head = LOAD4(rows, 2 * row);
    float label = SHARED_ROWS != 0 ? float(group + (group >= p.skipped ? 1 : 0)) : head.y;
    int place = group * p.most + before;
    STORE4(sorted, 2 * place, vec4(score, label, head.zw));
    STORE4(sorted, 2 * place + 1, LOAD4(rows, 2 * row + 1));
}
