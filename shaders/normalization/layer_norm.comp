#version 450
#pragma vknn variants ACCESS=0,1,2 AFFINE=0,1 WIDE=0,1
#pragma vknn variants ACCESS=0,1,2 AFFINE=0,1 WIDE=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"

// y = (x - mean) / sqrt(variance + epsilon) * scale + bias for each row; mean, then variance, in two
// readings. WIDE 1: rows are whole vec4s.

#if WIDE == 1
#define ELEMENT vec4
#define LOAD LOAD4
#define STORE STORE4
INPUT4F(0, x);
OUTPUT4F(1, y);
#if AFFINE == 1
INPUT4F(2, scale);
INPUT4F(3, bias);
#endif
float total(vec4 v) { return (v.x + v.y) + (v.z + v.w); }
#else
#define ELEMENT float
#define LOAD LOAD1
#define STORE STORE1
INPUT1F(0, x);
OUTPUT1F(1, y);
#if AFFINE == 1
INPUT1F(2, scale);
INPUT1F(3, bias);
#endif
float total(float v) { return v; }
#endif

layout(constant_id = 10) const int LANES = 1;
layout(constant_id = 11) const int ROWS = 1;
#include "normalization/row_reduce.glsl"

layout(push_constant) uniform P {
    int rows;
    int width;      // ELEMENTs in a row
    float inverse;  // 1 / scalars in a row
    float epsilon;
} p;

void main() {
    int lane = row_lane();
    int row = linear_group() * ROWS + row_of_group();
    bool inside = row < p.rows;
    int base = min(row, p.rows - 1) * p.width;

    ELEMENT sum = ELEMENT(0.0);
    for (int i = lane; i < p.width; i += LANES) sum += LOAD(x, base + i);
    float mean = row_sum(total(sum)) * p.inverse;

    ELEMENT squares = ELEMENT(0.0);
    for (int i = lane; i < p.width; i += LANES) {
        ELEMENT d = LOAD(x, base + i) - mean;
        squares += d * d;
    }
    float factor = 1.0 / sqrt(row_sum(total(squares)) * p.inverse + p.epsilon);

    if (!inside) return;
    for (int i = lane; i < p.width; i += LANES) {
        ELEMENT v = (LOAD(x, base + i) - mean) * factor;
#if AFFINE == 1
        v = v * LOAD(scale, i) + LOAD(bias, i);
#endif
        STORE(y, base + i, v);
    }
}
