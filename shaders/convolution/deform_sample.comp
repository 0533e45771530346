#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Samples of a deformable convolution for each tap and some pixels in a row of one image: a lane
// samples a run of vec4s of channels at the place of one tap and pixel.
//
// x [N, c4, H, W] in C4; offset [N, offset_groups, taps, 2, OH, OW]; mask [N, offset_groups, taps, OH,
// OW] where MASKED; y: [c4][tap][pixel] vec4s.
#include "common/tensor.glsl"
#include "common/grid.glsl"

INPUT4(0, x);
INPUT1(1, offset);
INPUT1(2, mask);
OUTPUT4(3, y);

layout(constant_id = 10) const bool MASKED = true;
// A vec4 of channels may belong to several offset groups.
layout(constant_id = 11) const bool MIXED = false;
// Places before 0 or behind the image's size are outside, and values do not fade to 0 at the edges.
layout(constant_id = 12) const bool CLAMPED = false;

layout(push_constant) uniform P {
    int total, pixels, run;      // lanes; pixels of this dispatch; vec4s of channels a lane takes
    int first, plane;            // the first pixel; pixels of an image
    int image, c4, channels, offset_group_channels;
    int offset_groups, taps;
    int in_h, in_w, out_w;
    int kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w;
} p;

// Shares of the four corners, and their places in a plane; corners outside have share 0 and place -1.
// The mask's factor comes last: an infinite one has the sign of the sample, not of each corner.
struct Corners {
    vec4 share;
    ivec4 at;
    float factor;
};

Corners corners_of(int offset_group, int tap, int pixel) {
    int number = (p.image * p.offset_groups + offset_group) * p.taps + tap;
    int ky = divide(tap, p.kernel_w), row = divide(pixel, p.out_w);
    int kx = tap - ky * p.kernel_w, column = pixel - row * p.out_w;
    float v = float(row * p.stride_h - p.pad_h + ky * p.dilation_h) + LOAD1(offset, 2 * number * p.plane + pixel);
    float u = float(column * p.stride_w - p.pad_w + kx * p.dilation_w)
              + LOAD1(offset, (2 * number + 1) * p.plane + pixel);
    bool inside = v > -1.0 && u > -1.0 && v < float(p.in_h) && u < float(p.in_w);
    if (CLAMPED) inside = inside && v >= 0.0 && u >= 0.0;
    vec2 at = inside ? vec2(u, v) : vec2(0.0);
    if (CLAMPED) at = min(at, vec2(float(p.in_w - 1), float(p.in_h - 1)));
    vec2 low = floor(at), high = at - low;
    ivec2 a = ivec2(low), b = a + 1;
    bool left = inside && a.x >= 0, right = inside && b.x < p.in_w;
    bool above = a.y >= 0, below = b.y < p.in_h;
    Corners c;
    c.share = vec4(left && above ? (1.0 - high.x) * (1.0 - high.y) : 0.0,
                   right && above ? high.x * (1.0 - high.y) : 0.0,
                   left && below ? (1.0 - high.x) * high.y : 0.0, right && below ? high.x * high.y : 0.0);
    c.at = ivec4(left && above ? a.y * p.in_w + a.x : -1, right && above ? a.y * p.in_w + b.x : -1,
                 left && below ? b.y * p.in_w + a.x : -1, right && below ? b.y * p.in_w + b.x : -1);
    c.factor = MASKED ? LOAD1(mask, number * p.plane + pixel) : 1.0;
    return c;
}

vec4 corner(int base, int at, float share) {
    vec4 v = LOAD4(x, base + max(at, 0));
    return at >= 0 ? v * share : vec4(0.0);
}

vec4 blend(int c, Corners s) {
    int base = (p.image * p.c4 + c) * p.in_h * p.in_w;
    vec4 v = corner(base, s.at.x, s.share.x) + corner(base, s.at.y, s.share.y)
             + corner(base, s.at.z, s.share.z) + corner(base, s.at.w, s.share.w);
    if (!MASKED) return v;
    // Behind the last channel stays 0, whatever the factor: products see those lanes.
    return mix(vec4(0.0), v * s.factor, lessThan(4 * c + ivec4(0, 1, 2, 3), ivec4(p.channels)));
}

void main() {
    int id = linear_lane();
    if (id >= p.total) return;
    int rest = divide(id, p.pixels);
    int pixel = id - rest * p.pixels;
    int chunk = divide(rest, p.taps);
    int tap = rest - chunk * p.taps;
    int c = chunk * p.run, end = min(c + p.run, p.c4);
    if (MIXED) {
        do {
            vec4 v = vec4(0.0);
            for (int q = 0; q < 4; q++) {
                int offset_group = divide(min(4 * c + q, p.channels - 1), p.offset_group_channels);
                v[q] = blend(c, corners_of(offset_group, tap, p.first + pixel))[q];
            }
            STORE4(y, (c * p.taps + tap) * p.pixels + pixel, v);
        } while (++c < end);
    } else {
        Corners s = corners_of(divide(4 * c, p.offset_group_channels), tap, p.first + pixel);
        do {
            STORE4(y, (c * p.taps + tap) * p.pixels + pixel, blend(c, s));
        } while (++c < end);
    }
}
