#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 HALF=1
#extension GL_GOOGLE_include_directive : require
// Packs weights that are known only at run time for the kernel "conv": a lane writes one vec4 of
// output channels, of a weight or, behind the weights, of the bias.
//
// w: [channels][group_in][taps]; bias: [channels]; packed: see conv.comp.
#include "common/tensor.glsl"
#include "common/grid.glsl"

INPUT1(0, w);
INPUT1(1, bias);
OUTPUT4(2, packed);

layout(constant_id = 10) const int TM = 4;
layout(constant_id = 11) const bool HAS_BIAS = true;

layout(push_constant) uniform P {
    int weights, total;  // vec4s of weights; of weights and bias
    int group_blocks, group_in, group_out, in4, taps;
} p;

void main() {
    int id = linear_lane();
    if (id >= p.total) return;
    bool is_bias = id >= p.weights;
    int rest = is_bias ? id - p.weights : id;
    int next = divide(rest, TM);
    int j = rest - next * TM;
    int c = 0, tap = 0;
    if (!is_bias) {
        rest = next;
        next = divide(rest, 4 * p.in4);
        c = rest - next * 4 * p.in4;
        rest = next;
        next = divide(rest, p.taps);
        tap = rest - next * p.taps;
    }
    int group = divide(next, p.group_blocks);
    int first = ((next - group * p.group_blocks) * TM + j) * 4;
    VEC4 v = VEC4(0);
    for (int q = 0; q < 4; q++) {
        if (first + q >= p.group_out || c >= p.group_in) continue;
        int channel = group * p.group_out + first + q;
        if (is_bias) {
            if (HAS_BIAS) v[q] = LOAD1(bias, channel);
        } else {
            v[q] = LOAD1(w, (channel * p.group_in + c) * p.taps + tap);
        }
    }
    STORE4(packed, id, v);
}
