#version 450
#pragma vknn variants ACCESS=0,1,2 COUNTS=0,1
#pragma vknn variants ACCESS=0,1,2 COUNTS=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "quantized/dynamic_steps.glsl"

// DynamicRound of long rows, after quantized/dynamic_range.comp has found the ranges of their parts. A
// row is `width` vec4s; a workgroup takes a part of `chunk` vec4s. COUNTS: as in dynamic_rows.comp.

INPUT4F(0, x);
INPUT1S(1, range);
OUTPUT4F(2, y);
#if COUNTS
OUTPUT1F(3, step_size);
OUTPUT1F(4, step_zero);
#endif

layout(constant_id = 12) const int ROUNDING = 1;

layout(push_constant) uniform P {
    int rows;
    int width;
    int parts;
    int chunk;
} p;

void main() {
    int id = linear_group();
    if (id >= p.rows * p.parts) return;
    int row = divide(id, p.parts);
    int first = (id - row * p.parts) * p.chunk, end = min(first + p.chunk, p.width);
    float low = 0.0, high = 0.0;
    for (int i = row * p.parts; i < (row + 1) * p.parts; i++) {
        low = min(low, LOAD1(range, 2 * i));
        high = max(high, LOAD1(range, 2 * i + 1));
    }
    Steps s = steps_of(low, high, ROUNDING);
#if COUNTS
    if (id == row * p.parts && gl_LocalInvocationID.x == 0) {
        STORE1(step_size, row, s.size);
        STORE1(step_zero, row, s.zero);
    }
#endif
    for (int i = first + int(gl_LocalInvocationID.x); i < end; i += int(gl_WorkGroupSize.x)) {
        int at = row * p.width + i;
        STORE4(y, at, in_steps(LOAD4(x, at), s) * (COUNTS != 0 ? 1.0 : s.size));
    }
}
