#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// The sums of the first elements of each row, one by one; a lane takes whole rows.

INPUT1F(0, x);
OUTPUT1S(1, sums);

layout(push_constant) uniform P { int rows, chunk, width; } p;

void main() {
    FOR_EACH_ITEM(row, p.rows, p.chunk) {
        precise float sum = 0.0;
        for (int i = row * p.width; i < (row + 1) * p.width; ++i) {
            sum = sum + LOAD1(x, i);
            STORE1(sums, i, sum);
        }
    }
}
