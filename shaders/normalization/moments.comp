#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"

// Joins the parts of each row, as normalization/normalize.comp leaves them: from means, sums of squares
// about those and numbers of elements to the mean of the row, and what it is multiplied with (Chan's
// formula). A lane takes a row.
INPUT4S(0, x);
OUTPUT4S(1, y);

layout(constant_id = 10) const int FACTOR = 0;

layout(push_constant) uniform P {
    int rows, parts;
    float share, epsilon;
} p;

#include "normalization/factor.glsl"

void main() {
    int row = linear_lane();
    if (row >= p.rows) return;
    int first = row * p.parts, end = first + p.parts;
    vec4 count = vec4(0.0), sum = vec4(0.0);
    for (int i = first; i < end; i++) {
        vec4 n = LOAD4(x, 3 * i + 2);
        count += n;
        sum += n * LOAD4(x, 3 * i);
    }
    vec4 mean = sum / max(count, 1.0);
    vec4 squares = vec4(0.0);
    for (int i = first; i < end; i++) {
        vec4 d = LOAD4(x, 3 * i) - mean;
        squares += LOAD4(x, 3 * i + 1) + LOAD4(x, 3 * i + 2) * d * d;
    }
    STORE4(y, 2 * row, mean);
    STORE4(y, 2 * row + 1, factor_of(squares * p.share));
}
