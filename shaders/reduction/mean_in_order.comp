#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#pragma vknn variants ACCESS=0,1,2 TOGETHER=1
#pragma vknn variants ACCESS=0,1,2 TOGETHER=1 HALF=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// The mean of each row (reduction/reduction_axes.glsl), its elements added one after the other in order
// of indices. A lane adds up a vec4 of four neighbouring rows, as many items as its loop may have
// rounds; a longer row takes several dispatches, each of which goes on from `sums`.
//
// TOGETHER, for GPUs: a workgroup has one such vec4 of rows. All of its lanes load items, side by side in
// memory where a row's are, into one half of shared memory while four lanes, of a component each, add up
// the other half. So an item takes an addition's time and not a load's.
INPUT4(0, x);
INOUT4S(1, sums);
OUTPUT4(2, y);

layout(constant_id = 10) const int LANES = 1;
layout(constant_id = 11) const int ROWS = 1;
layout(constant_id = 16) const int FIRST = 1;  // nothing was added yet
layout(constant_id = 17) const int LAST = 1;   // nothing is left to add
#include "reduction/reduction_axes.glsl"

layout(push_constant) uniform P {
    AXES_MEMBERS;
    int begin, end;  // items to add
    float number;    // elements of a row
} p;

AXES_FUNCTIONS

void finish(int row, int base, vec4 total) {
    if (LAST == 0) {
        STORE4(sums, row, total);
        return;
    }
    total /= p.number;
    if (PADDING_LANES != 0) total = mix(vec4(0.0), total, within_channels(base));
    STORE4(y, row, total);
}

#ifdef TOGETHER
const int STEP = 32;  // items whose loads from shared memory stand together; ITEMS is a multiple
const int AHEAD = 2;  // items that a lane loads at a time
const int ITEMS = AHEAD * LANES;
const int LINE = ITEMS + 4;  // of a component; the four begin in other banks
shared float held[2 * 4 * LINE];

void main() {
    int row = linear_group();
    if (row >= p.rows) return;
    int lane = row_lane(), base = row_base(row), component = min(lane, 3), last = p.end - 1;
    float total = FIRST != 0 ? 0.0 : sums[row][component];
    vec4 next[AHEAD];
    [[unroll]] for (int i = 0; i < AHEAD; i++)
        next[i] = LOAD4(x, base + place_of(min(p.begin + lane + i * LANES, last)));
    int from = 0;
    for (int first = p.begin; first < p.end; first += ITEMS) {
        [[unroll]] for (int i = 0; i < AHEAD; i++) {
            // Sums are never -0, and so 0 behind the last item changes none.
            vec4 v = first + lane + i * LANES < p.end ? next[i] : vec4(0.0);
            [[unroll]] for (int c = 0; c < 4; c++) held[from + c * LINE + lane + i * LANES] = v[c];
        }
        barrier();
        [[unroll]] for (int i = 0; i < AHEAD; i++)
            next[i] = LOAD4(x, base + place_of(min(first + ITEMS + lane + i * LANES, last)));
        if (lane < 4) {
            int at = from + component * LINE, end = at + min(ITEMS, p.end - first);
            [[dont_unroll]] for (; at < end; at += STEP) {
                float v[STEP];
                [[unroll]] for (int i = 0; i < STEP; i++) v[i] = held[at + i];
                [[unroll]] for (int i = 0; i < STEP; i++) total += v[i];
            }
        }
        from = 4 * LINE - from;  // that half was added up before the barrier
    }
    barrier();
    if (lane < 4) held[lane] = total;
    barrier();
    if (lane == 0) finish(row, base, vec4(held[0], held[1], held[2], held[3]));
}
#else
void main() {
    int row = linear_group() * ROWS + row_of_group();
    if (row >= p.rows) return;
    int base = row_base(row);
    vec4 total = FIRST != 0 ? vec4(0.0) : sums[row];
    for (int k = p.begin; k < p.end; k++) total += LOAD4(x, base + place_of(k));
    finish(row, base, total);
}
#endif
