#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Transposed convolution of one to three spatial axes, one output channel for each input channel. A
// lane computes TX pixels of a row, a stride apart, for a vec4 of channels: they read the same taps.
//
// x [N, c4, D, H, W] and y [N, c4, D, H, W] in C4. w: [c4][tap] vec4s, then the bias, [c4].
#include "common/tensor.glsl"
#include "common/grid.glsl"

INPUT4(0, x);
INPUT4(1, w);
OUTPUT4(2, y);
#define EPILOGUE_BINDING 3
#include "common/epilogue.glsl"

layout(constant_id = 10) const int TX = 4;

layout(push_constant) uniform P {
    int total, tiles;  // lanes; lanes of a phase of a row
    int c4, channels;
    int bias;
    int in_d, in_h, in_w, out_d, out_h, out_w;
    int kernel_d, kernel_h, kernel_w;
    int stride_d, stride_h, stride_w;
    int pad_d, pad_h, pad_w;
    int step_d, step_h, step_w;  // see convolution/span.glsl
    int reach_d, reach_h, reach_w;
    int inverse_d, inverse_h, inverse_w;
} p;

#include "convolution/conv_transpose_taps.glsl"

void main() {
    int id = linear_lane();
    if (id >= p.total) return;
    int phases = min(p.stride_w, p.out_w);
    int line = divide(id, p.tiles);
    int first = (id - line * p.tiles) * TX;
    int next = divide(line, phases);
    int phase = line - next * phases;
    line = next;
    int layer = divide(line, p.out_h);
    int row = line - layer * p.out_h;
    int plane = divide(layer, p.out_d);
    layer -= plane * p.out_d;
    int c = plane - divide(plane, p.c4) * p.c4;

    ivec3 tap0, count, place;
    find_taps(phase, p.pad_w, p.stride_w, p.step_w, p.reach_w, p.inverse_w, p.kernel_w, tap0.x, count.x, place.x);
    int row_q = divide(row, p.stride_h), layer_q = divide(layer, p.stride_d);
    find_taps(row - row_q * p.stride_h, p.pad_h, p.stride_h, p.step_h, p.reach_h, p.inverse_h, p.kernel_h,
              tap0.y, count.y, place.y);
    find_taps(layer - layer_q * p.stride_d, p.pad_d, p.stride_d, p.step_d, p.reach_d, p.inverse_d, p.kernel_d,
              tap0.z, count.z, place.z);
    ivec3 origin = place + ivec3(first, row_q, layer_q);
    ivec3 size = ivec3(p.in_w, p.in_h, p.in_d), reach = ivec3(p.reach_w, p.reach_h, p.reach_d);
    ivec3 step_ = ivec3(p.step_w, p.step_h, p.step_d), kernel = ivec3(p.kernel_w, p.kernel_h, p.kernel_d);
    int source = plane * size.z * size.y * size.x;
    int weights = c * kernel.z * kernel.y * kernel.x;

    VEC4 sum[TX];
    VEC4 b = LOAD4(w, p.bias + c);
    [[unroll]] for (int i = 0; i < TX; i++) sum[i] = b;
    ivec3 k = ivec3(0);
    int steps = count.x * count.y * count.z;
    for (int round = 0; round < steps; round++) {
        ivec3 at = origin - k * reach, tap = tap0 + k * step_;
        VEC4 factor = LOAD4(w, weights + (tap.z * kernel.y + tap.y) * kernel.x + tap.x);
        bool inside = uint(at.z) < uint(size.z) && uint(at.y) < uint(size.y);
        int from = source + (inside ? (at.z * size.y + at.y) * size.x : 0);
        [[unroll]] for (int i = 0; i < TX; i++) {
            int column = at.x + i;
            bool valid = inside && uint(column) < uint(size.x);
            VEC4 a = LOAD4(x, from + (valid ? column : 0));
            sum[i] = valid ? fma(a, factor, sum[i]) : sum[i];  // the factor may be infinite
        }
        k.x++;
        k.y += k.x == count.x ? 1 : 0;
        k.x = k.x == count.x ? 0 : k.x;
        k.z += k.y == count.y ? 1 : 0;
        k.y = k.y == count.y ? 0 : k.y;
    }

    [[unroll]] for (int i = 0; i < TX; i++) {
        int column = (first + i) * p.stride_w + phase;
        if (column < p.out_w) {
            int at = ((plane * p.out_d + layer) * p.out_h + row) * p.out_w + column;
            STORE4(y, at, zero_padding_lanes(epilogue4(sum[i], at, c), c, p.channels));
        }
    }
}
