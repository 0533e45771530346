#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/extremes.glsl"
#include "common/grid.glsl"
#include "common/mathf.glsl"
#include "detection/list.glsl"

// Priors of several images moved as the network says, a lane a box, as rows of lists: of each image
// `lists` lists of `count` boxes.

INPUT4F(0, location);    // [images, count, lists]
INPUT4F(1, priors);      // [1 or images, 2 (variances behind), count]
INPUT4F(2, refinement);  // [images, count]
OUTPUT4S(3, rows);

layout(constant_id = 10) const int CORNERS = 0;
layout(constant_id = 11) const int ENCODED = 0;  // no variances
layout(constant_id = 12) const int REFINED = 0;
layout(constant_id = 13) const int CLIPPED = 0;

layout(push_constant) uniform P {
    int images, lists, count, own_priors, width, height;
} p;

vec4 moved(vec4 prior, vec4 delta) {
    vec4 box = prior + delta;
    if (CORNERS == 0) {
        vec2 size = prior.zw - prior.xy;
        vec2 centre = delta.xy * size + 0.5 * (prior.xy + prior.zw);
        vec2 reach = 0.5 * (m_exp(delta).zw * size);
        box = vec4(centre - reach, centre + reach);
    }
    return CLIPPED != 0 ? bounded_by(box, 0.0, 1.0) : box;
}

void main() {
    int at = linear_lane();
    if (at >= p.images * p.lists * p.count) return;
    int list = at / p.count, number = at % p.count;
    int image = list / p.lists;
    int from = (p.own_priors != 0 ? image : 0) * (ENCODED != 0 ? 1 : 2) * p.count + number;
    vec4 box = LOAD4(priors, from);
    vec4 variance = ENCODED != 0 ? vec4(1.0) : LOAD4(priors, from + p.count);
    int own = image * p.count + number;
    if (REFINED != 0) {
        box = moved(box, variance * LOAD4(refinement, own));
        box /= vec2(p.width, p.height).xyxy;
    }
    box = moved(box, variance * LOAD4(location, own * p.lists + list % p.lists));
    STORE4(rows, 2 * at, box_head(0.0, 0.0, box));
    STORE4(rows, 2 * at + 1, box_tail(box));
}
