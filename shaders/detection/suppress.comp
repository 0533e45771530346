#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_memory_scope_semantics : require
#include "common/tensor.glsl"
#include "common/extremes.glsl"
#include "common/grid.glsl"
#include "detection/list.glsl"

// Greedy suppression, a workgroup a group: of the boxes in `sorted` (groups of `most`, best first) one
// stays unless it overlaps one that stays by more than the threshold; `limit` of them at most.
// kept [groups, 1 + most]: their number, then their places. gone and kept must start as 0.
//
// `extra` is added to all sides, those of intersections too where the boxes touch.
//
// A dispatch judges boxes `first` to `last` - 1: a long list takes several, because a driver may end a
// shader's loops after 65,535 rounds (Mesa's llvmpipe) or call it hung.

INPUT4S(0, sorted);
coherent INOUT1I(1, gone);
INOUT1I(2, kept);

// Boxes that a lane compares in one round of the inner loop.
const int AT_ONCE = 4;

layout(constant_id = 10) const int PRODUCTS = 0;  // intersections are held against threshold * union
layout(constant_id = 11) const int LABELLED = 0;  // boxes of other labels are left alone

layout(push_constant) uniform P {
    int groups, most, limit, first, last;
    float threshold, extra;
} p;

void main() {
    int lane = int(gl_LocalInvocationID.x);
    int lanes = int(gl_WorkGroupSize.x);
    int group = linear_group();
    if (group >= p.groups) return;
    int base = group * p.most, list = group * (1 + p.most);
    int number = kept[list];
    barrier();
    for (int i = p.first; i < p.last; i++) {
        vec4 a = LOAD4(sorted, 2 * (base + i));
        if (is_none(a.x) || number >= p.limit) break;
        // All lanes read the same word, written before the last barrier: they stay together.
        if (gone[base + i] != 0) continue;
        vec4 a2 = LOAD4(sorted, 2 * (base + i) + 1);
        number++;
        if (lane == 0) STORE1(kept, list + number, i);
        for (int start = i + 1; start < p.most; start += lanes * AT_ONCE) {
            bool ended = false;
            [[unroll]] for (int k = 0; k < AT_ONCE; k++) {
                int j = min(start + k * lanes + lane, p.most - 1);
                vec4 b = LOAD4(sorted, 2 * (base + j));
                vec4 b2 = LOAD4(sorted, 2 * (base + j) + 1);
                ended = ended || is_none(b.x);
                vec2 sides = smaller(a2.xy, b2.xy) - larger(a.zw, b.zw);
                vec2 wide = sides + p.extra;
                bool apart = any(lessThan(PRODUCTS != 0 ? wide : sides, vec2(0.0)));
                float shared_ = apart ? 0.0 : wide.x * wide.y;
                float union_ = b2.z + a2.z - shared_;
                bool over = PRODUCTS != 0 ? shared_ > p.threshold * union_
                                          : shared_ / union_ > p.threshold;
                if (LABELLED != 0) over = over && a.y == b.y;
                if (j > i && !is_none(b.x) && over) STORE1(gone, base + j, 1);
            }
            if (ended) break;
        }
        // As memoryBarrierBuffer() and barrier(), but of the workgroup alone: device scope would need
        // a feature of its own (vulkanMemoryModelDeviceScope) where the Vulkan memory model is on.
        controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer,
                       gl_SemanticsAcquireRelease);
    }
    if (lane == 0) STORE1(kept, list, number);
}
