#version 450
#pragma vknn variants ACCESS=0,1,2 SCALAR_INPUT=0,1
#pragma vknn variants ACCESS=0,1,2 SCALAR_INPUT=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/extremes.glsl"
#include "common/indexing.glsl"
#include "pooling/roi_rounding.glsl"

// Bilinear samples on a grid in each region: y [R, c4, h, w] in C4, a lane a vec4 of channels of a
// sample. The corners of regions are fractions of the image.
//
// x [N, c4, H, W] in C4; with SCALAR_INPUT x [N, parts * C, H, W] is row-major and the mean over the
// parts of a region is taken, each of which has a grid of its own.
#if SCALAR_INPUT
INPUT1F(0, x);
#else
INPUT4F(0, x);
#endif
INPUT1F(1, rois);
OUTPUT4F(2, y);

layout(constant_id = 10) const int PARTS = 0;

layout(push_constant) uniform P {
    int count, chunk;
    int c4, channels, images, columns;  // columns of rois: 4 or 5
    int in_h, in_w, out_h, out_w;
    int rows, across;                   // parts of a region
    float scale;
} p;

#if SCALAR_INPUT
float channel(int image, int c, int part, int at) {
    int own = part * p.channels + min(c, p.channels - 1);
    return LOAD1(x, (image * p.channels * p.rows * p.across + own) * p.in_h * p.in_w + at);
}

vec4 pixel(int image, int c, int part, int at) {
    return vec4(channel(image, 4 * c, part, at), channel(image, 4 * c + 1, part, at),
                channel(image, 4 * c + 2, part, at), channel(image, 4 * c + 3, part, at));
}
#else
vec4 pixel(int image, int c, int part, int at) {
    return LOAD4(x, (image * p.c4 + c) * p.in_h * p.in_w + at);
}
#endif

// Place of sample `number` of `count` along an axis of `size` places.
float place_of(float low, float high, int part, int parts, int number, int count, int size) {
    float last = float(size - 1);
    precise float begin = low, end = high;
    if (PARTS != 0) {
        precise float from = low * p.scale, to = high * p.scale;
        precise float share = divided(to - from, float(parts));
        begin = from + float(part) * share;
        end = from + float(part + 1) * share;
    }
    precise float step_ = count > 1 ? divided((end - begin) * last, float(count - 1)) : 0.0;
    precise float place = float(number) * step_ + begin * last;
    precise float middle = 0.5 * (begin + end) * last;
    return count > 1 ? place : middle;
}

void main() {
    FOR_EACH_ITEM(item, p.count, p.chunk) {
        int line, rest, column, row, region, c;
        divide_rest(item, p.out_w, line, column);
        divide_rest(line, p.out_h, rest, row);
        divide_rest(rest, p.c4, region, c);

        int at = region * p.columns;
        float number = p.columns > 4 ? LOAD1(rois, at++) : 0.0;
        vec4 box = vec4(LOAD1(rois, at), LOAD1(rois, at + 1), LOAD1(rois, at + 2), LOAD1(rois, at + 3));
        bool known = number >= 0.0 && number < float(p.images);
        known = known && !any(isnan(box)) && !any(isinf(box));
        int image = known ? int(number) : 0;

        vec4 sum = vec4(0.0);
        for (int part = 0; part < p.rows * p.across; ++part) {
            int i, j;
            divide_rest(part, p.across, i, j);
            float down = place_of(box.y, box.w, i, p.rows, row, p.out_h, p.in_h);
            float along = place_of(box.x, box.z, j, p.across, column, p.out_w, p.in_w);
            bool inside = known && down >= 0.0 && down <= float(p.in_h - 1) && along >= 0.0
                          && along <= float(p.in_w - 1);
            if (!inside) continue;
            int top = int(down), left = int(along);
            int bottom = min(top + 1, p.in_h - 1), right = min(left + 1, p.in_w - 1);
            float share_y = down - float(top), share_x = along - float(left);
            vec4 upper = between(pixel(image, c, part, top * p.in_w + left),
                             pixel(image, c, part, top * p.in_w + right), share_x);
            vec4 lower = between(pixel(image, c, part, bottom * p.in_w + left),
                             pixel(image, c, part, bottom * p.in_w + right), share_x);
            sum += between(upper, lower, share_y);
        }
        STORE4(y, item, zero_padding_lanes(sum / float(p.rows * p.across), c, p.channels));
    }
}
