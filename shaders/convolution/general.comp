#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1 ADD=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 ADD=0 HALF=1
#extension GL_GOOGLE_include_directive : require
// Convolution of one to three spatial axes in any groups, weights in the model's order. For the
// cases that no faster kernel computes: a lane computes one pixel of four output channels, each of
// which may belong to another group.
//
// x [N, c4, D, H, W] and y [N, m4, D, H, W] in C4. w: [channels][group_in][taps] scalars, then the
// bias, [channels], where HAS_BIAS.
//
// A dispatch takes `count` input channels of each group from the `first` on: drivers may end a lane's
// loops (DeviceLimits.max_loop_rounds), so what takes many rounds is cut. ADD: y holds the sum so far.
#include "common/tensor.glsl"
#include "common/grid.glsl"

INPUT1(0, x);
INPUT1(1, w);
#if ADD
INOUT4(2, y);
#else
OUTPUT4(2, y);
#endif
#if ELEM == 0
#define EPILOGUE_BINDING 3
#include "common/epilogue.glsl"
#endif

layout(constant_id = 10) const bool HAS_BIAS = true;

layout(push_constant) uniform P {
    int pixels, total;        // output pixels of an image; lanes
    int c4, m4, channels;     // vec4s of channels in and out; output channels
    int group_in, group_out;  // channels of a group
    int in_d, in_h, in_w, out_h, out_w;
    int kernel_d, kernel_h, kernel_w;
    int stride_d, stride_h, stride_w;
    int dilation_d, dilation_h, dilation_w;
    int pad_d, pad_h, pad_w;
    int bias;
    int first, count;         // input channels of a group
} p;

// Sum over one input plane; `from` counts scalars.
SCALAR correlate(int from, int weight, ivec3 origin) {
    ivec3 kernel = ivec3(p.kernel_w, p.kernel_h, p.kernel_d);
    ivec3 dilation = ivec3(p.dilation_w, p.dilation_h, p.dilation_d);
    ivec3 size = ivec3(p.in_w, p.in_h, p.in_d);
    int end = weight + kernel.x * kernel.y * kernel.z;
    SCALAR sum = SCALAR(0);
    ivec3 k = ivec3(0);
    do {
        ivec3 at = origin + k * dilation;
        bool inside = all(lessThan(uvec3(at), uvec3(size)));
        SCALAR a = LOAD1(x, from + 4 * (inside ? (at.z * size.y + at.y) * size.x + at.x : 0));
        sum += (inside ? a : SCALAR(0)) * LOAD1(w, weight);
        k.x++;
        k.y += k.x == kernel.x ? 1 : 0;
        k.x = k.x == kernel.x ? 0 : k.x;
        k.z += k.y == kernel.y ? 1 : 0;
        k.y = k.y == kernel.y ? 0 : k.y;
    } while (++weight < end);
    return sum;
}

void main() {
    int id = linear_lane();
    if (id >= p.total) return;
    int plane = divide(id, p.pixels);
    int pixel = id - plane * p.pixels;
    int image = divide(plane, p.m4);
    int m = plane - image * p.m4;
    int y_ = divide(pixel, p.out_w);
    int z_ = divide(y_, p.out_h);
    ivec3 origin = ivec3(pixel - y_ * p.out_w, y_ - z_ * p.out_h, z_)
                   * ivec3(p.stride_w, p.stride_h, p.stride_d) - ivec3(p.pad_w, p.pad_h, p.pad_d);

    int in_plane = p.in_d * p.in_h * p.in_w;
    int taps = p.kernel_d * p.kernel_h * p.kernel_w;
#if ADD
    VEC4 v = y[id];
#else
    VEC4 v = VEC4(0);
#endif
    for (int q = 0; q < 4; q++) {
        int channel = min(4 * m + q, p.channels - 1);
        int c = divide(channel, p.group_out) * p.group_in + p.first;
#if ADD
        SCALAR sum = v[q];
#else
        SCALAR sum = HAS_BIAS ? LOAD1(w, p.bias + channel) : SCALAR(0);
#endif
        for (int k = p.first; k < p.first + p.count; k++, c++) {
            int from = 4 * (image * p.c4 + c / 4) * in_plane + c % 4;
            sum += correlate(from, (channel * p.group_in + k) * taps, origin);
        }
        v[q] = sum;
    }
#if ELEM == 0
    v = epilogue4(v, id, m);
#endif
    STORE4(y, id, zero_padding_lanes(v, m, p.channels));
}
