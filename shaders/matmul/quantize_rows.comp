#version 450
#pragma vknn variants ACCESS=0,1,2 PARTS=0,1
#pragma vknn variants ACCESS=0,1,2 PARTS=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/extremes.glsl"
#include "common/grid.glsl"
#include "common/mathf.glsl"
#include "quantized/rounding.glsl"

// q = round(x * scale), halves away from zero, with scale = 127 / max|x| of each row, 1 where all is 0,
// NaN where one is NaN or infinite.
// Row r begins at r / per * matrix_step + r % per * row_step, its elements are `step` apart. q is in the
// order of x. PARTS 1: each `parts` rows share a scale, and `largest` holds max|x| of each row.

INPUT1F(0, x);
OUTPUT1I(1, q);
OUTPUT1S(2, scale);
#if PARTS == 1
INPUT1S(3, largest);
#endif

layout(constant_id = 10) const int LANES = 1;
layout(constant_id = 11) const int ROWS = 1;
#include "normalization/row_reduce.glsl"

layout(push_constant) uniform P {
    int rows;
    int count;
    int per;
    int matrix_step;
    int row_step;
    int step;
    int parts;
} p;

void main() {
    int lane = row_lane();
    int row = linear_group() * ROWS + row_of_group();
    bool inside = row < p.rows;
    row = min(row, p.rows - 1);
    int base = row / p.per * p.matrix_step + row % p.per * p.row_step;

    float most = 0.0;
#if PARTS == 1
    int first = row - row % p.parts;
    for (int i = lane; i < p.parts; i += LANES) most = max(most, LOAD1(largest, first + i));
#else
    for (int i = lane; i < p.count; i += LANES) most = max(most, abs(without_nan(LOAD1(x, base + i * p.step))));
#endif
    most = row_max(most);
    bool known = !isinf(most);
    float factor = most == 0.0 ? 1.0 : known ? ieee_quotient(vec4(127.0), vec4(most)).x : M_NAN;

    if (!inside) return;
    for (int i = lane; i < p.count; i += LANES) {
        precise float scaled = LOAD1(x, base + i * p.step) * factor;
        int whole = int(clamp(half_away(vec4(scaled)).x, -127.0, 127.0));
        STORE1(q, base + i * p.step, known ? whole : 0);
    }
    if (lane == 0 && row % p.parts == 0) STORE1(scale, row / p.parts, factor);
}
