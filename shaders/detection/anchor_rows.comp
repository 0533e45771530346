#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/extremes.glsl"
#include "common/grid.glsl"

// The boxes that suppression kept as `limit` rows for each image: its number, x1, y1, x2, y2; of the rows
// that are left the first begins with -1. With FORM 1 their scores.

INPUT4S(0, sorted);
INPUT1I(1, kept);  // [images, 1 + most]: their number, then their places in sorted
INPUT1F(2, info);  // height, width of the image
OUTPUT1F(3, y);

layout(constant_id = 10) const int FORM = 0;
layout(constant_id = 11) const int SWAPPED = 0;
layout(constant_id = 12) const int CLIPPED = 0;
layout(constant_id = 13) const int NORMALIZED = 0;
layout(constant_id = 14) const int MARKED = 1;

layout(push_constant) uniform P {
    int images, most, limit;
} p;

void main() {
    int at = linear_lane();
    if (at >= p.images * p.limit) return;
    int image = at / p.limit, number = at % p.limit, list = image * (1 + p.most);
    int all = LOAD1(kept, list);
    bool here = number < all;
    int from = 2 * (image * p.most + (here ? LOAD1(kept, list + 1 + number) : 0));
    vec4 head = LOAD4(sorted, from), tail = LOAD4(sorted, from + 1);
    if (FORM == 1) {
        STORE1(y, at, here ? head.x : 0.0);
        return;
    }
    vec2 size = vec2(LOAD1(info, 1), LOAD1(info, 0));
    if (SWAPPED != 0) size = size.yx;
    vec4 box = vec4(head.zw, tail.xy);
    if (CLIPPED != 0) box = larger(vec4(0.0), smaller(box, size.xyxy));
    if (NORMALIZED != 0) box /= size.xyxy;
    STORE1(y, 5 * at, here ? float(image) : MARKED != 0 && number == all ? -1.0 : 0.0);
    for (int i = 0; i < 4; i++) STORE1(y, 5 * at + 1 + i, here ? box[i] : 0.0);
}
