#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common/tensor.glsl"

// Greedy suppression by one workgroup. `sorted` has two vec4s a box, best first: score, label, x1, y1;
// x2, y2, area; a negative score ends it. A box that stays becomes a row of y: label, score, x1, y1,
// x2, y2. gone[i] and count must start as 0.
//
// A dispatch judges boxes `first` to `last` - 1: a long list takes several, because a driver may end a
// shader's loops after 65,535 rounds (Mesa's llvmpipe) or call it hung.

INPUT4S(0, sorted);
coherent INOUT1I(1, gone);
OUTPUT1F(2, y);
INOUT1I(3, count);

// Boxes that a lane compares in one round of the inner loop.
const int AT_ONCE = 4;

layout(push_constant) uniform P {
    int most, first, last;
    float threshold;
} p;

void main() {
    int lane = int(gl_LocalInvocationID.x);
    int lanes = int(gl_WorkGroupSize.x);
    int kept = count[0];
    barrier();
    for (int i = p.first; i < p.last; i++) {
        vec4 a = LOAD4(sorted, 2 * i);
        if (a.x < 0.0) break;
        // All lanes read the same word, written before the last barrier: they stay together.
        if (gone[i] != 0) continue;
        vec4 a2 = LOAD4(sorted, 2 * i + 1);
        float values[6] = float[](a.y, a.x, a.z, a.w, a2.x, a2.y);
        for (int column = lane; column < 6; column += lanes)
            STORE1(y, 6 * kept + column, values[column]);
        kept++;
        for (int start = i + 1; start < p.most; start += lanes * AT_ONCE) {
            bool ended = false;
            [[unroll]] for (int k = 0; k < AT_ONCE; k++) {
                int j = min(start + k * lanes + lane, p.most - 1);
                vec4 b = LOAD4(sorted, 2 * j);
                vec4 b2 = LOAD4(sorted, 2 * j + 1);
                ended = ended || b.x < 0.0;
                vec2 sides = min(a2.xy, b2.xy) - max(a.zw, b.zw);
                float shared_ = any(lessThan(sides, vec2(0.0))) ? 0.0 : sides.x * sides.y;
                bool over = shared_ / (b2.z + a2.z - shared_) > p.threshold;
                if (j > i && b.x >= 0.0 && over) STORE1(gone, j, 1);
            }
            if (ended) break;
        }
        memoryBarrierBuffer();
        barrier();
    }
    if (lane == 0) STORE1(count, 0, kept);
}
