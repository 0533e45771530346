#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/extremes.glsl"
#include "common/grid.glsl"

// y = max|x| of each row of `count` elements; infinite where one is NaN.

INPUT1F(0, x);
OUTPUT1S(1, y);

layout(constant_id = 10) const int LANES = 1;
layout(constant_id = 11) const int ROWS = 1;
#include "normalization/row_reduce.glsl"

layout(push_constant) uniform P {
    int rows;
    int count;
} p;

void main() {
    int lane = row_lane();
    int row = linear_group() * ROWS + row_of_group();
    int base = min(row, p.rows - 1) * p.count;
    float most = 0.0;
    for (int i = lane; i < p.count; i += LANES) most = max(most, abs(without_nan(LOAD1(x, base + i))));
    most = row_max(most);
    if (lane == 0 && row < p.rows) STORE1(y, row, most);
}
