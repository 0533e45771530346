#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/extremes.glsl"
#include "common/grid.glsl"

// The best `limit` boxes of each image as rows of y: image, class, score, box; in order of image, class
// and falling score; behind them a row that begins with -1, then zeros. A lane a row.

INPUT4S(0, sorted);
INPUT1I(1, kept);    // [images, classes, 1 + most]: their number, then their places in sorted
INPUT1I(2, places);  // [images, classes, most]: as image_places.comp has them
OUTPUT1F(3, y);

layout(constant_id = 10) const int LABELLED = 0;  // an image has one list, of boxes of all classes
layout(constant_id = 11) const int CLIPPED = 0;

layout(push_constant) uniform P {
    int images, classes, most, limit, rows;
} p;

// How many boxes of a group are among the best of their image: they are its first ones.
int taken(int group) {
    int low = 0, high = LOAD1(kept, group * (1 + p.most));
    if (LABELLED != 0) return min(high, p.limit);
    while (low < high) {
        int middle = (low + high) / 2;
        bool inside = LOAD1(places, group * p.most + middle) < p.limit;
        low = inside ? middle + 1 : low;
        high = inside ? high : middle;
    }
    return low;
}

void main() {
    int row = linear_lane();
    if (row >= p.rows) return;
    int group = -1, number = row;
    for (int g = 0; g < p.images * p.classes; g++) {
        int all = taken(g);
        if (number < all) {
            group = g;
            break;
        }
        number -= all;
    }
    if (group < 0) {
        for (int i = 0; i < 7; i++) STORE1(y, 7 * row + i, i == 0 && number == 0 ? -1.0 : 0.0);
        return;
    }
    if (LABELLED != 0) number = LOAD1(places, group * p.most + number);
    int at = 2 * (group * p.most + LOAD1(kept, group * (1 + p.most) + 1 + number));
    vec4 head = LOAD4(sorted, at), tail = LOAD4(sorted, at + 1);
    vec4 box = vec4(head.zw, tail.xy);
    if (CLIPPED != 0) box = bounded_by(box, 0.0, 1.0);
    STORE1(y, 7 * row, float(group / p.classes));
    STORE1(y, 7 * row + 1, head.y - float(LABELLED));
    STORE1(y, 7 * row + 2, head.x);
    for (int i = 0; i < 4; i++) STORE1(y, 7 * row + 3 + i, box[i]);
}
