#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 HALF=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Maximum or mean of windows over one to three spatial axes. A lane computes TX pixels of a row for
// a vec4 of channels and reads each input value once a row of the window.
//
// x [N, c4, D, H, W] and y [N, c4, D, H, W] in C4.
#include "common/tensor.glsl"
#include "common/grid.glsl"

INPUT4(0, x);
OUTPUT4(1, y);
#if ELEM == 0
#define EPILOGUE_BINDING 2
#include "common/epilogue.glsl"
#endif
#include "pooling/reduce.glsl"

layout(constant_id = 11) const bool COUNT_PADDING = false;
layout(constant_id = 12) const int TX = 4;
layout(constant_id = 13) const int KERNEL = 3;  // along the row; 0: kernel_w, with TX 1
layout(constant_id = 14) const int STRIDE = 1;  // along the row
layout(constant_id = 15) const int DILATION = 1;  // along the row
const int SPAN = KERNEL == 0 ? 1 : (TX - 1) * STRIDE + (KERNEL - 1) * DILATION + 1;

layout(push_constant) uniform P {
    int total, tiles;  // lanes; lanes of a row
    int c4, channels;
    int in_d, in_h, in_w, out_d, out_h, out_w;
    int kernel_d, kernel_h, kernel_w;
    int stride_d, stride_h;
    int dilation_d, dilation_h;
    int pad_d, pad_h, pad_w;
#if ELEM == 0
    float padding;
#else
    int padding;
#endif
} p;

// How many of `count` places from `first` on lie in 0 .. size-1.
int overlap(int first, int count, int size) { return max(min(first + count, size) - max(first, 0), 0); }

VEC4 fetch(int row, bool inside, int at, int width) {
    bool valid = inside && uint(at) < uint(width);
    VEC4 v = LOAD4(x, row + (valid ? at : 0));
    return valid ? v : VEC4(AVERAGE ? SCALAR(0) : p.padding);
}

void main() {
    int id = linear_lane();
    if (id >= p.total) return;
    int line = divide(id, p.tiles);
    int first = (id - line * p.tiles) * TX;
    int slice = divide(line, p.out_h);
    int plane = divide(slice, p.out_d);
    int c = plane - divide(plane, p.c4) * p.c4;
    int top = (line - slice * p.out_h) * p.stride_h - p.pad_h;
    int front = (slice - plane * p.out_d) * p.stride_d - p.pad_d;
    int left = first * STRIDE - p.pad_w;

    VEC4 result[TX];
    [[unroll]] for (int i = 0; i < TX; i++) result[i] = pool_start();

    // Push constants are read and loops tested as CPU drivers like it: the former outside of loops,
    // the latter at the end (they run a body once more, masked, where the test comes first).
    ivec3 size = ivec3(p.in_w, p.in_h, p.in_d);
    int kernel_h = p.kernel_h, dilation_h = p.dilation_h, dilation_d = p.dilation_d;
    int rows = p.kernel_d * kernel_h, row_of_window = 0, ky = 0;
    int at_z = front, at_y = top;
    do {
        bool inside = uint(at_y) < uint(size.y) && uint(at_z) < uint(size.z);
        int row = inside ? ((plane * size.z + at_z) * size.y + at_y) * size.x : 0;
        ky = ky + 1 == kernel_h ? 0 : ky + 1;
        at_z += ky == 0 ? dilation_d : 0;
        at_y = top + ky * dilation_h;
        if (KERNEL == 0) {
            int kx = 0;
            do result[0] = pool_join(result[0], fetch(row, inside, left + kx * DILATION, size.x));
            while (++kx < p.kernel_w);
        } else {
            VEC4 a[SPAN];
            [[unroll]] for (int s = 0; s < SPAN; s++) a[s] = fetch(row, inside, left + s, size.x);
            [[unroll]] for (int kx = 0; kx < KERNEL; kx++)
                [[unroll]] for (int i = 0; i < TX; i++)
                    result[i] = pool_join(result[i], a[i * STRIDE + kx * DILATION]);
        }
    } while (++row_of_window < rows);

    [[unroll]] for (int i = 0; i < TX; i++) {
        if (first + i < p.out_w) {
            int at = line * p.out_w + first + i;
            VEC4 v = result[i];
            if (AVERAGE) {
                int count = p.kernel_d * p.kernel_h * p.kernel_w;
                if (!COUNT_PADDING)
                    count = overlap(front, p.kernel_d, p.in_d) * overlap(top, p.kernel_h, p.in_h)
                            * overlap(left + i * STRIDE, p.kernel_w, p.in_w);
#if ELEM == 0
                v = count > 0 ? v / float(count) : vec4(POOL_NAN);
#else
                v = rounded_mean(v, count);
#endif
            }
#if ELEM == 0
            v = epilogue4(v, at, c);
#endif
            STORE4(y, at, zero_padding_lanes(v, c, p.channels));
        }
    }
}
