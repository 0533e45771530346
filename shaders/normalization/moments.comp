#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"

// Joins the parts of each line, as normalization/normalize.comp leaves them: from means, sums of squares
// about those and numbers of elements to the mean of the line, and what it is multiplied with (Chan's
// formula). A lane takes a line.
INPUT4S(0, x);
OUTPUT4S(1, y);

layout(constant_id = 10) const int FACTOR = 0;

layout(push_constant) uniform P {
    int lines, parts;
    float share, epsilon;
} p;

#include "normalization/factor.glsl"

void main() {
    int line = linear_lane();
    if (line >= p.lines) return;
    int first = line * p.parts, end = first + p.parts;
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
    STORE4(y, 2 * line, mean);
    STORE4(y, 2 * line + 1, factor_of(squares * p.share));
}
