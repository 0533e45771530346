#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "common/mathf.glsl"
#include "detection/list.glsl"

// A prior box moved as the network says, a lane a box, as a row of a list without score and label.

INPUT4F(0, location);
INPUT4F(1, priors);  // boxes; with OWN_VARIANCES those behind them
OUTPUT4S(2, rows);

layout(constant_id = 10) const int OWN_VARIANCES = 1;

layout(push_constant) uniform P {
    int count;
    float variances[4];
} p;

void main() {
    int at = linear_lane();
    if (at >= p.count) return;
    vec4 delta = LOAD4(location, at), prior = LOAD4(priors, at);
    vec4 variance = vec4(p.variances[0], p.variances[1], p.variances[2], p.variances[3]);
    if (OWN_VARIANCES != 0) variance = LOAD4(priors, p.count + at);
    delta *= variance;
    vec2 size = prior.zw - prior.xy;
    vec2 centre = delta.xy * size + 0.5 * (prior.xy + prior.zw);
    vec2 reach = 0.5 * (m_exp(delta).zw * size);
    vec4 corners = vec4(centre - reach, centre + reach);
    STORE4(rows, 2 * at, box_head(0.0, 0.0, corners));
    STORE4(rows, 2 * at + 1, box_tail(corners));
}
