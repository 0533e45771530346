#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/extremes.glsl"
#include "common/grid.glsl"

// The lowest and the highest number of each part of a row, 0 being one of them. A row is `width`
// vec4s in `parts` parts of `chunk` vec4s; a workgroup takes one.

INPUT4F(0, x);
OUTPUT1S(1, range);  // lowest, highest of each part

layout(constant_id = 10) const int LANES = 1;
const int ROWS = 1;
#include "normalization/row_reduce.glsl"

layout(push_constant) uniform P {
    int rows;
    int width;
    int parts;
    int chunk;
} p;

void main() {
    int id = min(linear_group(), p.rows * p.parts - 1);
    int row = divide(id, p.parts);
    int first = (id - row * p.parts) * p.chunk, end = min(first + p.chunk, p.width);
    vec4 low = vec4(0.0), high = vec4(0.0);
    for (int i = first + row_lane(); i < end; i += LANES) {
        vec4 v = without_nan(LOAD4(x, row * p.width + i));
        low = min(low, v);
        high = max(high, v);
    }
    float lowest = -row_max(-min(min(low.x, low.y), min(low.z, low.w)));
    float highest = row_max(max(max(high.x, high.y), max(high.z, high.w)));
    if (row_lane() == 0) {
        STORE1(range, 2 * id, lowest);
        STORE1(range, 2 * id + 1, highest);
    }
}
