#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 HALF=1
#extension GL_GOOGLE_include_directive : require
// Packs weights that are known only at run time for the kernels with spans (convolution/span.glsl)
// and, with DEPTHWISE, for those with one input channel a group: a lane writes one vec4 of output
// channels, of a weight or, behind the weights, of the bias.
//
// w: [channels][group_in][taps], or TRANSPOSED [channels_in][group_out][taps]; bias: [channels].
// packed: see span.glsl; or DEPTHWISE [m4][tap], then the bias, [m4].
#include "common/tensor.glsl"
#include "common/grid.glsl"

INPUT1(0, w);
INPUT1(1, bias);
OUTPUT4(2, packed);

layout(constant_id = 10) const int TM = 4;
layout(constant_id = 11) const bool HAS_BIAS = true;
layout(constant_id = 12) const bool TRANSPOSED = false;
layout(constant_id = 13) const bool DEPTHWISE = false;

layout(push_constant) uniform P {
    int weights, total;  // vec4s of weights; of weights and bias
    int taps, c4, span, channels_in, channels, group_in, group_out;
} p;

void main() {
    int id = linear_lane();
    if (id >= p.total) return;
    bool is_bias = id >= p.weights;
    int rest = is_bias ? id - p.weights : id, next = rest;
    int j = 0, q = 0, s = 0, tap = 0;
    if (!DEPTHWISE) {
        next = divide(rest, TM);
        j = rest - next * TM;
    }
    if (!is_bias) {
        if (!DEPTHWISE) {
            rest = next;
            next = rest / 4;
            q = rest - next * 4;
            rest = next;
            next = divide(rest, p.span);
            s = rest - next * p.span;
        }
        rest = next;
        next = divide(rest, p.taps);
        tap = rest - next * p.taps;
    }
    int block = next;
    int first = DEPTHWISE ? 4 * block : 4 * (block * TM + j);
    int start = DEPTHWISE ? 0 : min(divide(4 * block * TM, p.group_out) * p.group_in / 4, p.c4 - p.span);
    VEC4 v = VEC4(0);
    for (int l = 0; l < 4; l++) {
        int m = first + l;
        bool there = m < p.channels;
        int group = divide(min(m, p.channels - 1), p.group_out);
        if (is_bias) {
            if (there && HAS_BIAS) v[l] = LOAD1(bias, m);
        } else {
            int c = DEPTHWISE ? m : 4 * (start + s) + q;
            there = there && c >= group * p.group_in && c < (group + 1) * p.group_in;
            int at = TRANSPOSED ? c * p.group_out + m - group * p.group_out
                                : m * p.group_in + c - group * p.group_in;
            if (there) v[l] = LOAD1(w, at * p.taps + tap);
        }
    }
    STORE4(packed, id, v);
}
