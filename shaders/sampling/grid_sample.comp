#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// Samples x [N, c4, depth, height, width] in C4 at the places that grid [N, places, axes] (or with its
// axes first) gives for each place of y [N, c4, places]. A lane takes a vec4 of channels of a place.

INPUT4F(0, x);
INPUT1F(1, grid);
OUTPUT4F(2, y);

layout(constant_id = 10) const int MODE = 1;     // 0 nearest, 1 linear, 2 cubic
layout(constant_id = 11) const int PADDING = 0;  // 0 zeros, 1 border, 2 reflection
layout(constant_id = 12) const int ALIGN = 0;
layout(constant_id = 13) const int AXES = 2;
layout(constant_id = 14) const int TO_EVEN = 0;
layout(constant_id = 15) const int REPEATED = 0;

layout(push_constant) uniform P {
    int count, chunk;
    int c4, places;
    int size[3];      // width, height, depth
    int batch_step;   // of the grid: from one image to the next,
    int place_step;   // from one place to the next,
    int axis_step;    // from one axis to the next
} p;

const float FAR = 16777216.0;
const float CUBIC_A = -0.75;

float unnormalized(float g, float size) {
    precise float place = ALIGN != 0 ? (g + 1.0) * 0.5 * (size - 1.0) : ((g + 1.0) * size - 1.0) * 0.5;
    return place;
}

// A place reflected at 0 and at `length`.
float reflected(float place, float length) {
    float away = abs(place);
    if (REPEATED != 0) {
        float period = max(2.0 * length, 1.0);
        away = min(away, FAR);
        precise float rest = away - period * floor(away / period);
        away = rest;
    }
    return length - abs(away - length);
}

// A place moved into the image as PADDING says; NaN stays, which clamp may make a number.
float moved(float place, float size) {
    if (isnan(place)) return place;
    float last = size - 1.0;
    if (PADDING == 1) return clamp(place, 0.0, last);
    if (PADDING != 2) return place;
    if (ALIGN != 0) {
        float inside = reflected(place, last);
        return REPEATED != 0 ? clamp(inside, 0.0, last) : inside;
    }
    precise float mirrored = reflected(place + 0.5, size) - 0.5;
    return clamp(mirrored, 0.0, last);
}

// Cut off where it fits an int; NaN is far outside.
float limited(float place) { return isnan(place) ? -FAR : clamp(place, -FAR, FAR); }

int step_of(int tap) { return MODE == 2 ? tap - 1 : tap; }

// Weight of neighbour `tap` along an axis.
float weight_of(int tap, float fraction) {
    if (MODE == 0) return 1.0;
    if (MODE == 1) return tap == 0 ? 1.0 - fraction : fraction;
    float d = abs(fraction - float(tap - 1));
    if (d > 1.0) return CUBIC_A * (((d - 5.0) * d + 8.0) * d - 4.0);
    return ((CUBIC_A + 2.0) * d - (CUBIC_A + 3.0)) * d * d + 1.0;
}

// Index of a neighbour along an axis; -1: outside.
int index_of(float whole, int tap, int size) {
    float at = whole + float(step_of(tap));
    if (MODE == 2) at = trunc(limited(moved(at, float(size))));
    int i = int(at);
    return i >= 0 && i < size ? i : -1;
}

float whole_of(float g, int axis, out float fraction) {
    float size = float(p.size[axis]);
    float place = unnormalized(g, size);
    if (TO_EVEN != 0) place = roundEven(place);
    if (MODE != 2) place = moved(place, size);
    precise float shifted = MODE == 0 ? place + 0.5 : place;
    shifted = limited(shifted);
    float whole = floor(shifted);
    fraction = shifted - whole;
    return whole;
}

#define TAPS (MODE == 0 ? 1 : MODE == 1 ? 2 : 4)

void main() {
    FOR_EACH_ITEM(item, p.count, p.chunk) {
        int plane, place;
        divide_rest(item, p.places, plane, place);
        int from = quotient(plane, p.c4) * p.batch_step + place * p.place_step;
        float fx, fy, fz = 0.0, wz = 0.0;
        float wx = whole_of(LOAD1(grid, from), 0, fx);
        float wy = whole_of(LOAD1(grid, from + p.axis_step), 1, fy);
        if (AXES > 2) wz = whole_of(LOAD1(grid, from + 2 * p.axis_step), 2, fz);
        int depth = AXES > 2 ? p.size[2] : 1;
        vec4 sum = vec4(0.0);
        for (int k = 0; k < (AXES > 2 ? TAPS : 1); ++k) {
            int z = AXES > 2 ? index_of(wz, k, depth) : 0;
            float by_z = AXES > 2 ? weight_of(k, fz) : 1.0;
            for (int j = 0; j < TAPS; ++j) {
                int y_ = index_of(wy, j, p.size[1]);
                bool there = z >= 0 && y_ >= 0;
                int row = there ? ((plane * depth + z) * p.size[1] + y_) * p.size[0] : 0;
                float by_y = by_z * weight_of(j, fy);
                for (int i = 0; i < TAPS; ++i) {
                    int x_ = index_of(wx, i, p.size[0]);
                    bool inside = there && x_ >= 0;
                    vec4 v = LOAD4(x, inside ? row + x_ : 0);
                    float weight = by_y * weight_of(i, fx);
                    sum += inside ? weight * v : vec4(0.0);
                }
            }
        }
        STORE4(y, item, sum);
    }
}
