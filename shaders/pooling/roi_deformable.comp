#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/extremes.glsl"
#include "common/indexing.glsl"
#include "pooling/roi_rounding.glsl"

// The mean of bilinear samples in each bin of a region, bins moved by offsets: y [R, C, h, w], an item an
// element (formulas: vknn/ops/pooling/roi_sampled.py).

INPUT1F(0, x);        // [N, C * group^2, H, W]
INPUT1F(1, rois);
INPUT1F(2, offsets);  // [R, 2 * classes, parts, parts]
OUTPUT1F(3, y);

layout(constant_id = 10) const int MOVED = 0;

layout(push_constant) uniform P {
    int count, chunk;
    int channels, images, columns;   // columns of rois: 4 or 5
    int in_h, in_w, out_h, out_w;
    int group, rows, across;         // samples of a bin
    int parts, classes, each;        // channels of a class
    float scale, spread;
} p;

// Moves a place into the image; false where it is more than 0.5 beyond.
bool inside(inout float place, int size) {
    bool is = place >= -0.5 && place <= float(size) - 0.5;
    place = clamp(place, 0.0, float(size - 1));
    return is;
}

float pixel(int plane, int row, int column) { return LOAD1(x, (plane * p.in_h + row) * p.in_w + column); }

void main() {
    FOR_EACH_ITEM(item, p.count, p.chunk) {
        int line, rest, column, row, region, c;
        divide_rest(item, p.out_w, line, column);
        divide_rest(line, p.out_h, rest, row);
        divide_rest(rest, p.channels, region, c);

        int at = region * p.columns;
        float number = p.columns > 4 ? LOAD1(rois, at++) : 0.0;
        vec4 box = vec4(LOAD1(rois, at), LOAD1(rois, at + 1), LOAD1(rois, at + 2), LOAD1(rois, at + 3));
        bool known = number >= 0.0 && number < float(p.images);
        known = known && !any(isnan(box)) && !any(isinf(box));
        int image = known ? int(number) : 0;

        precise vec2 low = vec2(rounded(box.x), rounded(box.y)) * p.scale;
        precise vec2 high = (vec2(rounded(box.z), rounded(box.w)) + 1.0) * p.scale;
        low -= 0.5;
        high -= 0.5;
        precise vec2 size = max(high - low, vec2(0.1));
        precise vec2 bin = vec2(divided(size.x, float(p.out_w)), divided(size.y, float(p.out_h)));
        precise vec2 step_ = vec2(divided(bin.x, float(p.rows)), divided(bin.y, float(p.across)));
        vec2 by = vec2(0.0);
        if (MOVED != 0) {
            int part = row * p.parts / p.out_h * p.parts + column * p.parts / p.out_w;
            int first = (region * p.classes + c / p.each) * 2 * p.parts * p.parts + part;
            by = vec2(LOAD1(offsets, first), LOAD1(offsets, first + p.parts * p.parts)) * p.spread;
        }
        precise vec2 start = vec2(column, row) * bin + low + by * size;
        int own = (c * p.group + row * p.group / p.out_h) * p.group + column * p.group / p.out_w;
        int plane = image * p.channels * p.group * p.group + own;

        float sum = 0.0, found = 0.0;
        for (int i = 0; i < p.rows; ++i) {
            precise float down = start.y + float(i) * step_.y;
            bool there = inside(down, p.in_h);
            for (int j = 0; j < p.across; ++j) {
                precise float along = start.x + float(j) * step_.x;
                if (!inside(along, p.in_w) || !there) continue;
                int top = int(down), left = int(along);
                int bottom = min(top + 1, p.in_h - 1), right = min(left + 1, p.in_w - 1);
                float share = along - float(left);
                float upper = between(pixel(plane, top, left), pixel(plane, top, right), share);
                float lower = between(pixel(plane, bottom, left), pixel(plane, bottom, right), share);
                sum += between(upper, lower, down - float(top));
                found += 1.0;
            }
        }
        STORE1(y, item, known && found > 0.0 ? sum / found : 0.0);
    }
}
