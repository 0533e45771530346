#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 HALF=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Depthwise convolution of two spatial axes, one output channel for each input channel. A lane
// computes TX pixels of a row for a vec4 of channels and reads each input value once a kernel row.
//
// x [N, c4, in_h, in_w] and y [N, c4, out_h, out_w] in C4. w: [c4][kernel_h][KERNEL] vec4s, then the bias, [c4].
#include "common/tensor.glsl"
#include "common/grid.glsl"

INPUT4(0, x);
INPUT4(1, w);
OUTPUT4(2, y);
#if ELEM == 0
#define EPILOGUE_BINDING 3
#include "common/epilogue.glsl"
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

layout(constant_id = 10) const int TX = 4;
layout(constant_id = 11) const int KERNEL = 3;    // along the row
layout(constant_id = 12) const int STRIDE = 1;    // along the row
layout(constant_id = 13) const int DILATION = 1;  // along the row
const int SPAN = (TX - 1) * STRIDE + (KERNEL - 1) * DILATION + 1;

layout(push_constant) uniform P {
    int total, tiles;  // lanes; lanes of a row
    int c4, channels;
    int in_h, in_w, out_h, out_w;
    int kernel_h, stride_h, dilation_h;
    int pad_h, pad_w;
    int bias;
} p;

void main() {
    int id = linear_lane();
    if (id >= p.total) return;
    int line = divide(id, p.tiles);
    int first = (id - line * p.tiles) * TX;
    int plane = divide(line, p.out_h);
    int row = line - plane * p.out_h;
    int c = plane - divide(plane, p.c4) * p.c4;
    int left = first * STRIDE - p.pad_w;

    VEC4 sum[TX];
    VEC4 b = LOAD4(w, p.bias + c);
    [[unroll]] for (int i = 0; i < TX; i++) sum[i] = b;

    int at_y = row * p.stride_h - p.pad_h;
    int weight = c * p.kernel_h * KERNEL;
    int end = weight + p.kernel_h * KERNEL;
    int in_h = p.in_h, in_w = p.in_w, dilation_h = p.dilation_h;
    do {  // tested at the end: CPU drivers run a body once more, masked, where the test comes first
        bool inside = uint(at_y) < uint(in_h);
        int from = (plane * in_h + (inside ? at_y : 0)) * in_w;
        VEC4 a[SPAN];
        [[unroll]] for (int s = 0; s < SPAN; s++) {
            int at_x = left + s;
            bool valid = inside && uint(at_x) < uint(in_w);
            VEC4 v = LOAD4(x, from + (valid ? at_x : 0));
            a[s] = valid ? v : VEC4(0);
        }
        [[unroll]] for (int kx = 0; kx < KERNEL; kx++) {
            VEC4 k = LOAD4(w, weight + kx);
            [[unroll]] for (int i = 0; i < TX; i++)
                sum[i] = MULTIPLY_ADD(a[i * STRIDE + kx * DILATION], k, sum[i]);
        }
        at_y += dilation_h;
        weight += KERNEL;
    } while (weight < end);

    [[unroll]] for (int i = 0; i < TX; i++) {
        if (first + i < p.out_w) {
            int at = line * p.out_w + first + i;
            VEC4 v = sum[i];
#if ELEM == 0
            v = epilogue4(v, at, c);
#endif
            STORE4(y, at, zero_tail(v, c, p.channels));
        }
    }
}
