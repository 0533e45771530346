#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/extremes.glsl"
#include "common/grid.glsl"
#include "common/mathf.glsl"
#include "detection/list.glsl"

// Anchors of several images moved as the network says and clipped, a lane a box, as rows of lists: boxes
// are numbered by row, column and anchor.

INPUT1F(0, deltas);   // [images, 4 * anchors, height, width]
INPUT1F(1, info);     // height, width of the image
INPUT1S(2, anchors);  // x1, y1, x2, y2 of each
OUTPUT4S(3, rows);

layout(constant_id = 10) const int C4 = 0;
layout(constant_id = 11) const int SWAPPED = 0;        // x along rows
layout(constant_id = 12) const int CLIP_ANCHORS = 0;
layout(constant_id = 13) const int CLIPPED = 0;
layout(constant_id = 14) const int WHOLE = 0;          // the image's size is cut to whole numbers

layout(push_constant) uniform P {
    int images, anchor_count, width, height;
    float stride, extra, coordinate_scale, size_scale;
} p;

float delta(int image, int channel, int cell) {
    int cells = p.width * p.height;
    int at = C4 != 0 ? ((image * p.anchor_count + (channel >> 2)) * cells + cell) * 4 + (channel & 3)
                     : (image * 4 * p.anchor_count + channel) * cells + cell;
    return LOAD1(deltas, at);
}

void main() {
    int cells = p.width * p.height;
    int at = linear_lane();
    if (at >= p.images * p.anchor_count * cells) return;
    int a = at % p.anchor_count, place = at / p.anchor_count;
    int image = place / cells, cell = place % cells;
    vec2 shift = p.stride * vec2(cell % p.width, cell / p.width);
    vec2 size = vec2(LOAD1(info, 1), LOAD1(info, 0));
    if (WHOLE != 0) size = trunc(size);
    if (SWAPPED != 0) {
        shift = shift.yx;
        size = size.yx;
    }
    vec4 box = shift.xyxy + vec4(LOAD1(anchors, 4 * a), LOAD1(anchors, 4 * a + 1),
                                 LOAD1(anchors, 4 * a + 2), LOAD1(anchors, 4 * a + 3));
    if (CLIP_ANCHORS != 0) box = larger(vec4(0.0), smaller(box, size.xyxy));
    vec4 d = vec4(delta(image, 4 * a, cell), delta(image, 4 * a + 1, cell), delta(image, 4 * a + 2, cell),
                  delta(image, 4 * a + 3, cell));
    vec2 sides = box.zw - box.xy + p.extra;
    vec2 centre = d.xy / p.coordinate_scale * sides + (box.xy + 0.5 * sides);
    vec2 reach = 0.5 * (m_exp(d / p.size_scale).zw * sides);
    box = vec4(centre - reach, centre + reach);
    if (CLIPPED != 0) box = larger(vec4(0.0), smaller(box, size.xyxy - p.extra));
    STORE4(rows, 2 * at, box_head(0.0, 0.0, box));
    STORE4(rows, 2 * at + 1, box_tail(box, p.extra));
}
