#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/extremes.glsl"
#include "common/indexing.glsl"

// Boxes about each place of a map, a lane a box: x1, y1, x2, y2; with VARIANCES those behind all boxes.

INPUT1S(0, sizes);  // width, height of each box of a place
OUTPUT1F(1, y);

layout(constant_id = 10) const int CLIP = 0;
layout(constant_id = 11) const int VARIANCES = 0;

layout(push_constant) uniform P {
    int count, chunk;
    int boxes, columns;
    float step_y, step_x, first_y, first_x, image_h, image_w;
    float variances[4];
} p;

void main() {
    FOR_EACH_ITEM(item, p.count, p.chunk) {
        int place, box, row, column;
        divide_rest(item, p.boxes, place, box);
        divide_rest(place, p.columns, row, column);
        vec2 centre = vec2(p.first_x + p.step_x * float(column), p.first_y + p.step_y * float(row));
        vec2 reach = 0.5 * vec2(LOAD1(sizes, 2 * box), LOAD1(sizes, 2 * box + 1));
        vec4 corners = vec4(centre - reach, centre + reach) / vec2(p.image_w, p.image_h).xyxy;
        if (CLIP != 0) corners = bounded_by(corners, 0.0, 1.0);
        for (int i = 0; i < 4; ++i) {
            STORE1(y, 4 * item + i, corners[i]);
            if (VARIANCES != 0) STORE1(y, 4 * (p.count + item) + i, p.variances[i]);
        }
    }
}
