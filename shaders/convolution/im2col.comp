#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// y [N * C, kernel_h, kernel_w, out_h, out_w] are the windows of x [N * C, H, W], both row-major. A lane
// writes four neighbours.

INPUT1(0, x);
OUTPUT4(1, y);

layout(push_constant) uniform P {
    int count, chunk, elements;
    int in_h, in_w, out_h, out_w;
    int kernel_h, kernel_w;
    int stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
    SCALAR value;
} p;

SCALAR element(int e) {
    int rest, column, row, kx, ky;
    divide_rest(e, p.out_w, rest, column);
    divide_rest(rest, p.out_h, rest, row);
    divide_rest(rest, p.kernel_w, rest, kx);
    divide_rest(rest, p.kernel_h, rest, ky);
    int at_y = row * p.stride_h - p.pad_h + ky * p.dilation_h;
    int at_x = column * p.stride_w - p.pad_w + kx * p.dilation_w;
    bool inside = at_y >= 0 && at_y < p.in_h && at_x >= 0 && at_x < p.in_w;
    SCALAR v = LOAD1(x, inside ? (rest * p.in_h + at_y) * p.in_w + at_x : 0);
    return inside ? v : p.value;
}

void main() {
    // The last item may reach behind the tensor; what it puts there is never read.
    int last = p.elements - 1;
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int e = i * 4;
        STORE4(y, i, VEC4(element(e), element(min(e + 1, last)), element(min(e + 2, last)),
                          element(min(e + 3, last))));
    }
}
