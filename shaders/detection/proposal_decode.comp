#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/extremes.glsl"
#include "common/grid.glsl"
#include "common/mathf.glsl"
#include "detection/list.glsl"

// An anchor moved as the network says and clipped to the image, a lane a box, as a row of a list.

INPUT1F(0, deltas);
INPUT1F(1, info);     // height, width of the image
INPUT1S(2, anchors);  // x1, y1, x2, y2 of each
OUTPUT4S(3, rows);

layout(constant_id = 10) const int C4 = 0;

layout(push_constant) uniform P {
    int anchor_count, width, height;
    float stride;
} p;

float delta(int channel, int cell) {
    int cells = p.width * p.height;
    return LOAD1(deltas, C4 != 0 ? ((channel >> 2) * cells + cell) * 4 + (channel & 3)
                                 : channel * cells + cell);
}

void main() {
    int cells = p.width * p.height;
    int at = linear_lane();
    if (at >= p.anchor_count * cells) return;
    int a = at / cells, cell = at % cells;
    vec4 anchor = vec4(LOAD1(anchors, 4 * a), LOAD1(anchors, 4 * a + 1), LOAD1(anchors, 4 * a + 2),
                       LOAD1(anchors, 4 * a + 3));
    vec4 d = vec4(delta(4 * a, cell), delta(4 * a + 1, cell), delta(4 * a + 2, cell), delta(4 * a + 3, cell));
    vec2 size = anchor.zw - anchor.xy;
    vec2 centre = anchor.xy + p.stride * vec2(cell % p.width, cell / p.width) + 0.5 * size + size * d.xy;
    vec2 reach = 0.5 * (size * m_exp(d).zw);
    vec2 last = vec2(LOAD1(info, 1), LOAD1(info, 0)) - 1.0;
    vec4 corners = larger(smaller(vec4(centre - reach, centre + reach), last.xyxy), vec4(0.0));
    STORE4(rows, 2 * at, box_head(0.0, 0.0, corners));
    STORE4(rows, 2 * at + 1, box_tail(corners));
}
