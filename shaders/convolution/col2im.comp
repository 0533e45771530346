#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// y [N * C, H, W] is what the windows x [N * C, kernel_h, kernel_w, rows, columns] add up to, both
// row-major. A lane adds up the windows' elements at one element of y.

INPUT1F(0, x);
OUTPUT1F(1, y);

layout(push_constant) uniform P {
    int count, chunk;
    int out_h, out_w, rows, columns;
    int kernel_h, kernel_w;
    int stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
} p;

// The window that begins at `place` (padding counted) along an axis; -1: none does.
int window_of(int place, int stride, int count) {
    if (place < 0) return -1;
    int number, rest;
    divide_rest(place, stride, number, rest);
    return rest == 0 && number < count ? number : -1;
}

void main() {
    FOR_EACH_ITEM(item, p.count, p.chunk) {
        int line, plane, column, row;
        divide_rest(item, p.out_w, line, column);
        divide_rest(line, p.out_h, plane, row);
        float sum = 0.0;
        for (int ky = 0; ky < p.kernel_h; ++ky) {
            int i = window_of(row + p.pad_h - ky * p.dilation_h, p.stride_h, p.rows);
            for (int kx = 0; kx < p.kernel_w && i >= 0; ++kx) {
                int j = window_of(column + p.pad_w - kx * p.dilation_w, p.stride_w, p.columns);
                int part = (plane * p.kernel_h + ky) * p.kernel_w + kx;
                float v = LOAD1(x, j >= 0 ? (part * p.rows + i) * p.columns + j : 0);
                sum += j >= 0 ? v : 0.0;
            }
        }
        STORE1(y, item, sum);
    }
}
