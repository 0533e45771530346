#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"
#include "matmul/batch.glsl"

// y = c / (scale of the row * scale of the matrix or column) for sums c [.., m, n] of a quantized
// product. The batch steps count the scales of a and b; those of c are not used.

INPUT1I(0, c);
INPUT1S(1, a_scale);
INPUT1S(2, b_scale);
OUTPUT1F(3, y);

layout(push_constant) uniform P {
    int count;
    int chunk;
    int m;
    int n;
    int a_period;  // rows until the scales of a begin again; 1: there is one for all
    int b_column;  // 1: a scale for each column
    BATCH_MEMBERS
} p;

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int row, col, z;
        divide_rest(i, p.n, row, col);
        divide_rest(row, p.m, z, row);
        BATCH_PLACES(z)
        float scale = LOAD1(a_scale, a_base + row % p.a_period)
            * LOAD1(b_scale, b_base + col * p.b_column);
        STORE1(y, c_base + i, float(LOAD1(c, i)) * (1.0 / scale));
    }
}
