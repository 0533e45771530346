#version 450
#pragma vknn variants ACCESS=0,1,2 SCALAR_INPUT=0,1
#pragma vknn variants ACCESS=0,1,2 SCALAR_INPUT=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/extremes.glsl"
#include "common/indexing.glsl"
#include "pooling/roi_bins.glsl"

// Pools regions of x: y [R, c4, h, w] in C4, a lane a vec4 of channels of a bin.
//
// x [N, c4, H, W] in C4; with SCALAR_INPUT x [N, C * h * w, H, W] is row-major and each channel of each
// bin has its own image in it. A bin of many rows takes several dispatches of `rows` of them at most
// (loops have to be short); what they have found so far is kept in `parts`.
#if SCALAR_INPUT
INPUT1F(0, x);
#else
INPUT4F(0, x);
#endif
INPUT1F(1, rois);
OUTPUT4F(2, y);
INOUT4S(3, parts);

layout(constant_id = 13) const int FIRST = 1;  // the first dispatch
layout(constant_id = 14) const int LAST = 1;   // the last

layout(push_constant) uniform P {
    int count, chunk;
    int c4, channels, images, columns;  // columns of rois: 4 or 5
    int in_h, in_w, out_h, out_w;
    int row, rows;                      // rows of each bin that this dispatch takes
    float scale, share_h, share_w;
} p;

#if SCALAR_INPUT
float channel(int image, int c, int part, int at) {
    int parts_ = p.out_h * p.out_w;
    int own = min(c, p.channels - 1) * parts_ + part;
    return LOAD1(x, (image * p.channels * parts_ + own) * p.in_h * p.in_w + at);
}

// Place `at` of the images of bin `part` in channels 4c..4c+3.
vec4 pixel(int image, int c, int part, int at) {
    return vec4(channel(image, 4 * c, part, at), channel(image, 4 * c + 1, part, at),
                channel(image, 4 * c + 2, part, at), channel(image, 4 * c + 3, part, at));
}
#else
vec4 pixel(int image, int c, int part, int at) {
    return LOAD4(x, (image * p.c4 + c) * p.in_h * p.in_w + at);
}
#endif

// The samples of a row of a bin.
vec4 across(vec4 sum, Bin bin, int image, int c, int part, int r, Bin down) {
    int top = r, bottom = r;
    float share_y = 0.0;
    if (KIND < 2 && !sample_at(down, r, p.in_h, top, bottom, share_y)) {
        return LARGEST != 0 ? larger(sum, vec4(0.0)) : sum;
    }
    for (int s = bin.first; s < bin.last; ++s) {
        if (KIND == 2) {
            sum = larger(sum, pixel(image, c, part, r * p.in_w + s));
        } else if (KIND == 3) {
            sum += pixel(image, c, part, r * p.in_w + s);
        } else {
            int left, right;
            float share_x;
            bool inside = sample_at(bin, s, p.in_w, left, right, share_x);
            vec4 a = pixel(image, c, part, top * p.in_w + left);
            vec4 b = pixel(image, c, part, top * p.in_w + right);
            vec4 d = pixel(image, c, part, bottom * p.in_w + left);
            vec4 e = pixel(image, c, part, bottom * p.in_w + right);
            if (LARGEST != 0) {
                vec4 upper = larger((1.0 - share_x) * a, share_x * b);
                vec4 lower = larger((1.0 - share_x) * d, share_x * e);
                vec4 most = larger((1.0 - share_y) * upper, share_y * lower);
                sum = larger(sum, inside ? most : vec4(0.0));
            } else {
                vec4 upper = between(a, b, share_x), lower = between(d, e, share_x);
                sum += inside ? between(upper, lower, share_y) : vec4(0.0);
            }
        }
    }
    return sum;
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

        Bin down = bin_of(box.y, box.w, p.scale, p.share_h, row, p.out_h, p.in_h);
        Bin bin = bin_of(box.x, box.z, p.scale, p.share_w, column, p.out_w, p.in_w);
        bool empty = !known || down.first >= down.last || bin.first >= bin.last;
        vec4 sum = vec4(KIND == 2 || LARGEST != 0 ? -M_INF : 0.0);
        if (FIRST == 0) sum = parts[item];
        int begin = down.first + p.row;
        int end = empty ? 0 : min(begin + p.rows, down.last);
        for (int r = begin; r < end; ++r) sum = across(sum, bin, image, c, row * p.out_w + column, r, down);
        if (LAST == 0) {
            STORE4(parts, item, sum);
        } else {
            if (LARGEST != 0) {
                bool more = bin.last - bin.first < int(bin.count) || down.last - down.first < int(down.count);
                if (more) sum = larger(sum, vec4(0.0));  // of the samples beyond the image
            } else if (KIND != 2) {
                sum /= bin.count * down.count;
            }
            STORE4(y, item, zero_padding_lanes(empty ? vec4(0.0) : sum, c, p.channels));
        }
    }
}
