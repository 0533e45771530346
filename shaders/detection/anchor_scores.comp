#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "detection/list.glsl"

// The scores of the boxes that anchor_decode.comp makes; boxes too small for the image's scale have 0, or
// with DROPPED none, as those that are not above 0.

INPUT1F(0, scores);  // [images, 2 * anchor_count, height, width], those of the background first
INPUT1F(1, info);    // height, width, scale (of the height, of the width) of the image
INPUT4S(2, rows);
OUTPUT1S(3, y);      // [images, stride]

layout(constant_id = 10) const int C4 = 0;
layout(constant_id = 11) const int DROPPED = 0;

layout(push_constant) uniform P {
    int images, anchor_count, width, height, stride, last_scale;
    float min_size, extra;
} p;

void main() {
    int cells = p.width * p.height;
    int at = linear_lane();
    if (at >= p.images * p.anchor_count * cells) return;
    int channel = p.anchor_count + at % p.anchor_count, place = at / p.anchor_count;
    int image = place / cells, cell = place % cells;
    int blocks = (2 * p.anchor_count + 3) / 4;
    int from = C4 != 0 ? ((image * blocks + (channel >> 2)) * cells + cell) * 4 + (channel & 3)
                       : (image * 2 * p.anchor_count + channel) * cells + cell;
    vec2 sides = LOAD4(rows, 2 * at + 1).xy - LOAD4(rows, 2 * at).zw;
    vec2 scale = vec2(LOAD1(info, p.last_scale), LOAD1(info, 2));
    if (DROPPED != 0) {
        sides = trunc(sides) + 1.0;
        scale = trunc(scale);
    } else {
        sides += p.extra;
    }
    bool large = all(greaterThanEqual(sides, p.min_size * scale));
    float score = LOAD1(scores, from);
    if (DROPPED != 0) score = large && score > 0.0 ? score : NONE;
    else score = large ? score : 0.0;
    STORE1(y, image * p.stride + at % (p.anchor_count * cells), score);
}
