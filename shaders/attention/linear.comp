#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"
#include "common/mathf.glsl"

// Steps of LinearAttention. An item is a column of the state of a head of k and v, which no other
// item reads; it goes through `steps` steps from `first` on. The state, float32, lies in a buffer
// from one dispatch to the next: [batch][groups][depth][width], so that lanes are side by side.

INPUT1F(0, x);  // q, k, v, the state before the first step, decay and beta
INOUT1S(1, state);
OUTPUT1F(2, y);
OUTPUT1F(3, present);

layout(push_constant) uniform P {
    int count;      // items
    int chunk;
    int first;
    int steps;
    int all_steps;  // in all dispatches
    int groups;     // heads of k and v
    int sharing;    // heads of q that read the same state
    int depth;
    int width;
    int rates;      // numbers of decay for a head: 0, 1 or depth
    int corrected;  // 1: beta is there
    int begins;     // 1: the state is still in x
    int ends;       // 1: the state is stored as `present`
    int k_at;       // where each begins in x
    int v_at;
    int state_at;
    int decay_at;
    int beta_at;
    float scale;
} p;

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int head, column, entry, group;
        divide_rest(i, p.width, head, column);
        divide_rest(head, p.groups, entry, group);
        int at = head * p.depth * p.width + column;
        for (int d = 0; p.begins != 0 && d < p.depth; ++d) {
            state[at + d * p.width] = LOAD1(x, p.state_at + at + d * p.width);
        }
        for (int t = p.first; t < p.first + p.steps; ++t) {
            int step = (entry * p.all_steps + t) * p.groups + group;
            float value = LOAD1(x, p.v_at + step * p.width + column);
            if (p.rates != 0 || p.corrected != 0) {
                float rate = p.rates == 1 ? m_exp(vec4(LOAD1(x, p.decay_at + step))).x : 1.0;
                float old = 0.0;
                for (int d = 0; d < p.depth; ++d) {
                    if (p.rates > 1) rate = m_exp(vec4(LOAD1(x, p.decay_at + step * p.depth + d))).x;
                    float s = state[at + d * p.width] * rate;
                    state[at + d * p.width] = s;
                    old += s * LOAD1(x, p.k_at + step * p.depth + d);
                }
                if (p.corrected != 0) value = LOAD1(x, p.beta_at + step) * (value - old);
            }
            for (int d = 0; d < p.depth; ++d) {
                state[at + d * p.width] += LOAD1(x, p.k_at + step * p.depth + d) * value;
            }
            for (int h = step * p.sharing; h < (step + 1) * p.sharing; ++h) {
                float sum = 0.0;
                for (int d = 0; d < p.depth; ++d) {
                    sum += LOAD1(x, h * p.depth + d) * state[at + d * p.width];
                }
                STORE1(y, h * p.width + column, p.scale * sum);
            }
        }
        for (int d = 0; p.ends != 0 && d < p.depth; ++d) {
            STORE1(present, at + d * p.width, state[at + d * p.width]);
        }
    }
}
