#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// The mean of each row (reduction/reduction_axes.glsl), its elements added one after the other in order
// of indices. A lane adds up a vec4 of four neighbouring rows, as many items as its loop may have
// rounds; a longer row takes several dispatches, each of which goes on from `sums`.
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

void main() {
    int row = linear_group() * ROWS + row_of_group();
    if (row >= p.rows) return;
    int base = row_base(row);
    vec4 total = FIRST != 0 ? vec4(0.0) : sums[row];
    for (int k = p.begin; k < p.end; k++) total += LOAD4(x, base + place_of(k));
    if (LAST == 0) {
        STORE4(sums, row, total);
        return;
    }
    total /= p.number;
    if (PADDING_LANES != 0) total = mix(vec4(0.0), total, within_channels(base));
    STORE4(y, row, total);
}
