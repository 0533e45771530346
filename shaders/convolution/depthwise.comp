#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 HALF=1
#pragma vknn variants ACCESS=0,1,2 ELEM=1 QUANT=1,2
#pragma vknn variants ACCESS=0,1,2 ELEM=1 QUANT=1 BYTES=1,2
#pragma vknn variants ACCESS=0,1,2 ELEM=0 FEW=1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 HALF=1 FEW=1
#pragma vknn variants ACCESS=0,1,2 ELEM=1 QUANT=2,4 FEW=1
#pragma vknn variants ACCESS=0,1,2 ELEM=1 QUANT=4 BYTES=1,2 FEW=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Depthwise convolution of one to three spatial axes, one output channel for each input channel. A
// lane computes TX pixels of a row for a vec4 of channels and reads each input value once a kernel row.
//
// x [N, c4, D, H, W] and y [N, c4, D, H, W] in C4. w: [c4][tap] vec4s, then the bias, [c4].
//
// QUANT: quantized integers, requantized (quantized/sums.glsl, which has the bias too).
// FEW: weights of 4 or 2 bits (convolution/few_bits.glsl), of which four in a row make a quad, without a bias;
// then an input channel may have MULTIPLIER output channels, and `c4` counts these.
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "convolution/sums.glsl"

INPUT_X(0, x);
INPUT4W(1, w);
OUTPUT_Y(2, y);

layout(constant_id = 10) const int TX = 4;
layout(constant_id = 11) const int KERNEL = 3;    // along the row
layout(constant_id = 12) const int STRIDE = 1;    // along the row
layout(constant_id = 13) const int DILATION = 1;  // along the row
layout(constant_id = 14) const int AXES = 2;      // spatial axes: 3, or at most 2
#if FEW
layout(constant_id = 15) const int MULTIPLIER = 1;
#endif
const int SPAN = (TX - 1) * STRIDE + (KERNEL - 1) * DILATION + 1;

layout(push_constant) uniform P {
    int total, tiles;  // lanes; lanes of a row
    int c4, channels;
    int in_h, in_w, out_h, out_w;
    int kernel_h, stride_h, dilation_h;
    int pad_h, pad_w;
    int bias;
    int in_d, out_d, kernel_d, stride_d, dilation_d, pad_d;
} p;

void main() {
    int id = linear_lane();
    if (id >= p.total) return;
    int line = divide(id, p.tiles);
    int first = (id - line * p.tiles) * TX;
    int plane = divide(line, p.out_h);
    int row = line - plane * p.out_h;
    int layer = 0;
    if (AXES == 3) {
        layer = plane;
        plane = divide(plane, p.out_d);
        layer -= plane * p.out_d;
    }
    int image = divide(plane, p.c4);
    int c = plane - image * p.c4;
#if FEW
    // The output channels of a vec4 have theirs in one of the input's: 4 times MULTIPLIER have.
    ivec4 lanes = ivec4(0, 1, 2, 3);
    if (MULTIPLIER > 1) {
        int source = c / MULTIPLIER;
        plane = image * ((p.channels / MULTIPLIER + 3) / 4) + source;
        lanes = (4 * c + lanes) / MULTIPLIER - 4 * source;
    }
#endif
    int left = first * STRIDE - p.pad_w;

    VEC4 sum[TX];
    VEC4 b = BIAS(p.bias + c);
    [[unroll]] for (int i = 0; i < TX; i++) sum[i] = b;
    PARTIAL_SUMS(partial, TX)
    ZERO_POINT

    int top = row * p.stride_h - p.pad_h, at_y = top;
    int rows = p.kernel_h, ky = 0, line_ = 0;
    int at_z = AXES == 3 ? layer * p.stride_d - p.pad_d : 0;
    int taps = (AXES == 3 ? p.kernel_d : 1) * rows * KERNEL;
    int weight = c * taps;
    int end = weight + taps;
    int in_d = p.in_d, in_h = p.in_h, in_w = p.in_w, dilation_d = p.dilation_d, dilation_h = p.dilation_h;
    do {  // tested at the end: CPU drivers run a body once more, masked, where the test comes first
        bool inside = uint(at_y) < uint(in_h);
        int first_row = plane;
        if (AXES == 3) {
            inside = inside && uint(at_z) < uint(in_d);
            first_row = plane * in_d + (inside ? at_z : 0);
        }
        int from = (first_row * in_h + (inside ? at_y : 0)) * in_w;
        INPUT_FACTOR a[SPAN];
        [[unroll]] for (int s = 0; s < SPAN; s++) {
            int at_x = left + s;
            bool valid = inside && uint(at_x) < uint(in_w);
            INPUT_FACTOR v = TAKE(LOAD_X(x, from + (valid ? at_x : 0)));
#if FEW
            if (MULTIPLIER > 1) v = INPUT_FACTOR(v[lanes.x], v[lanes.y], v[lanes.z], v[lanes.w]);
#endif
            a[s] = valid ? v : OUTSIDE;
        }
        [[unroll]] for (int kx = 0; kx < KERNEL; kx++) {
#if FEW
            int tap = weight + kx, quad = tap / 4;
            FACTOR k = ROW_OF_FEW(LOAD4(w, quad / SHARING), quad % SHARING, tap % 4);
#else
            WEIGHT4 k = LOAD4(w, weight + kx);
#endif
            [[unroll]] for (int i = 0; i < TX; i++)
                SUM(sum, partial)[i] =
                    MULTIPLY_ADD(a[i * STRIDE + kx * DILATION], k, SUM(sum, partial)[i]);
        }
        ADD_PARTIAL_SUMS(sum, partial, TX, line_++)
        at_y += dilation_h;
        if (AXES == 3) {
            ky++;
            at_z += ky == rows ? dilation_d : 0;
            at_y = ky == rows ? top : at_y;
            ky = ky == rows ? 0 : ky;
        }
        weight += KERNEL;
    } while (weight < end);
    ADD_LAST_SUMS(sum, partial, TX)

    READ_SETTING(c, p.c4)
    [[unroll]] for (int i = 0; i < TX; i++) {
        if (first + i < p.out_w) {
            int at = line * p.out_w + first + i;
            VEC4 v = RESULT(sum, i, at, c);
            STORE_Y(y, at, zero_padding_lanes(v, c, p.channels));
        }
    }
}
