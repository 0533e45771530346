#version 450
#pragma vknn variants ACCESS=0,1,2 COUNTS=0,1
#pragma vknn variants ACCESS=0,1,2 COUNTS=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "quantized/dynamic_steps.glsl"

// DynamicRound: rows rounded to multiples of their steps. COUNTS: outputs are the numbers of steps, and
// the step and the zero point of each row.

INPUT1F(0, x);
OUTPUT1F(1, y);
#if COUNTS
OUTPUT1F(2, step_size);
OUTPUT1F(3, step_zero);
#endif

layout(constant_id = 10) const int LANES = 1;
layout(constant_id = 11) const int ROWS = 1;
layout(constant_id = 12) const int ROUNDING = 1;
#include "normalization/row_reduce.glsl"

layout(push_constant) uniform P {
    int rows;
    int width;
} p;

void main() {
    int lane = row_lane();
    int row = linear_group() * ROWS + row_of_group();
    bool inside = row < p.rows;
    int base = min(row, p.rows - 1) * p.width;
    float high = 0.0, low = 0.0;
    for (int i = lane; i < p.width; i += LANES) {
        float v = without_nan(LOAD1(x, base + i));
        high = max(high, v);
        low = min(low, v);
    }
    high = row_max(high);
    low = -row_max(-low);
    if (!inside) return;
    Steps s = steps_of(low, high, ROUNDING);
#if COUNTS
    if (lane == 0) {
        STORE1(step_size, row, s.size);
        STORE1(step_zero, row, s.zero);
    }
#endif
    for (int i = lane; i < p.width; i += LANES)
        STORE1(y, base + i, in_steps(vec4(LOAD1(x, base + i)), s).x * (COUNTS != 0 ? 1.0 : s.size));
}
