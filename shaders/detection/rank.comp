#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"

// Puts the rows of all boxes with a score of 0 or more in order of falling score, equal ones in their own
// order: a box's place is the number of boxes before it. sorted[2 * place] must start as -1 in x, the
// mark that ends the list.

INPUT4S(0, scores);
INPUT4S(1, rows);
OUTPUT4S(2, sorted);

layout(push_constant) uniform P { int count; } p;

void main() {
    int at = linear_lane();
    if (at >= p.count) return;
    float score = LOAD4(scores, at / 4)[at % 4];
    if (score < 0.0) return;
    int before = 0;
    for (int i = 0; i < (p.count + 3) / 4; i++) {
        vec4 other = LOAD4(scores, i);
        ivec4 index = 4 * i + ivec4(0, 1, 2, 3);
        ivec4 earlier = ivec4(greaterThan(other, vec4(score)))
            + ivec4(equal(other, vec4(score))) * ivec4(lessThan(index, ivec4(at)));
        earlier *= ivec4(lessThan(index, ivec4(p.count)));
        before += earlier.x + earlier.y + earlier.z + earlier.w;
    }
    STORE4(sorted, 2 * before, LOAD4(rows, 2 * at));
    STORE4(sorted, 2 * before + 1, LOAD4(rows, 2 * at + 1));
}
