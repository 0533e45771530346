#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"

// Greedy suppression by one workgroup. `sorted` has two vec4s a box, best first: score, label, x1, y1;
// x2, y2, area; a negative score ends it. A box that stays becomes a row of y: label, score, x1, y1,
// x2, y2. gone[i] must start as 0.

INPUT4F(0, sorted);
coherent INOUT1I(1, gone);
OUTPUT1F(2, y);
OUTPUT1I(3, count);

layout(push_constant) uniform P {
    int most;
    float threshold;
} p;

void main() {
    int lane = int(gl_LocalInvocationID.x);
    int lanes = int(gl_WorkGroupSize.x);
    int kept = 0;
    for (int i = 0; i < p.most; i++) {
        vec4 a = LOAD4(sorted, 2 * i);
        if (a.x < 0.0) break;
        // All lanes read the same word, written before the last barrier: they stay together.
        if (gone[i] != 0) continue;
        vec4 a2 = LOAD4(sorted, 2 * i + 1);
        if (lane < 6) {
            float values[6] = float[](a.y, a.x, a.z, a.w, a2.x, a2.y);
            STORE1(y, 6 * kept + lane, values[lane]);
        }
        kept++;
        for (int j = i + 1 + lane; j < p.most; j += lanes) {
            vec4 b = LOAD4(sorted, 2 * j);
            if (b.x < 0.0) break;
            vec4 b2 = LOAD4(sorted, 2 * j + 1);
            vec2 sides = min(a2.xy, b2.xy) - max(a.zw, b.zw);
            float shared_ = any(lessThan(sides, vec2(0.0))) ? 0.0 : sides.x * sides.y;
            if (shared_ / (b2.z + a2.z - shared_) > p.threshold) STORE1(gone, j, 1);
        }
        memoryBarrierBuffer();
        barrier();
    }
    if (lane == 0) STORE1(count, 0, kept);
}
