#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
// Maximum or mean of a whole image, one lane a vec4 of channels.
//
// x [N, c4, rows, columns] and y [N, c4] in C4. Rows are summed by themselves: sums stay short.
#include "common/tensor.glsl"
#include "common/grid.glsl"

INPUT4(0, x);
OUTPUT4(1, y);
#define EPILOGUE_BINDING 2
#include "common/epilogue.glsl"
#include "pooling/reduce.glsl"

layout(push_constant) uniform P {
    int total, c4, channels, rows, columns;
} p;

void main() {
    int id = linear_lane();
    if (id >= p.total) return;
    int from = id * p.rows * p.columns;
    vec4 v = pool_start();
    int columns = p.columns, end = from + p.rows * columns;
    do {
        vec4 part = pool_start();
        int row_end = from + columns;
        do part = pool_join(part, LOAD4(x, from));
        while (++from < row_end);
        v = pool_join(v, part);
    } while (from < end);
    if (AVERAGE) v /= float(p.rows * p.columns);
    int c = id - divide(id, p.c4) * p.c4;
    STORE4(y, id, zero_padding_lanes(epilogue4(v, id, c), c, p.channels));
}
