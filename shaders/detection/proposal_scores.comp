#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "detection/list.glsl"

// The scores of proposals, NONE for boxes too small for the image's scale; those of boxes lie behind
// those of the background.

INPUT1F(0, scores);
INPUT1F(1, info);  // height, width, scale of the image
INPUT4S(2, rows);
OUTPUT1S(3, y);

layout(constant_id = 10) const int C4 = 0;

layout(push_constant) uniform P {
    int anchor_count, width, height;
    float min_size;
} p;

void main() {
    int cells = p.width * p.height;
    int at = linear_lane();
    if (at >= p.anchor_count * cells) return;
    int channel = p.anchor_count + at / cells, cell = at % cells;
    int from = C4 != 0 ? ((channel >> 2) * cells + cell) * 4 + (channel & 3) : channel * cells + cell;
    vec2 low = LOAD4(rows, 2 * at).zw, high = LOAD4(rows, 2 * at + 1).xy;
    bool large = all(greaterThanEqual(high - low + 1.0, vec2(p.min_size * LOAD1(info, 2))));
    float score = LOAD1(scores, from);
    STORE1(y, at, large && !is_none(score) ? score : NONE);
}
