#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 HALF=1
#pragma vknn variants ACCESS=0 ELEM=1 WIDE=0,1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// Index of the largest or smallest element along an axis of `count` elements that are `inner` apart;
// WIDE: four rows lie side by side in a vec4. LANES lanes share a row.
#if WIDE
#define VALUES VEC4
#define PLACES ivec4
#define LOAD LOAD4
INPUT4(0, x);
OUTPUT4I(1, y);
#else
#define VALUES SCALAR
#define PLACES int
#define LOAD LOAD1
INPUT1(0, x);
OUTPUT1I(1, y);
#endif

layout(constant_id = 10) const int LANES = 1;
layout(constant_id = 11) const int ROWS = 1;
layout(constant_id = 12) const int LARGEST = 1;
layout(constant_id = 13) const int LAST = 0;  // of equal ones the last
layout(constant_id = 14) const int PADDING_LANES = 0;  // C4: lanes behind the last channel are padding
layout(constant_id = 15) const int NAN_LAST = 0;
#define NAN_FIRST
#include "indexing/topk_order.glsl"

layout(push_constant) uniform P { int rows, count, inner, plane, blocks, channels; } p;

shared VALUES best_of[LANES > 1 ? LANES * ROWS : 1];
shared PLACES place_of[LANES > 1 ? LANES * ROWS : 1];

void take(SCALAR v, int place, inout SCALAR best, inout int at) {
    bool nearer = LAST != 0 ? place > at : place < at;
    if (better(v, best) || (!better(best, v) && nearer)) {
        best = v;
        at = place;
    }
}

#if WIDE
void take(VEC4 v, ivec4 place, inout VEC4 best, inout ivec4 at) {
    take(v.x, place.x, best.x, at.x);
    take(v.y, place.y, best.y, at.y);
    take(v.z, place.z, best.z, at.z);
    take(v.w, place.w, best.w, at.w);
}
#endif

void main() {
    int lane = int(gl_LocalInvocationID.x) % LANES;
    int first = int(gl_LocalInvocationID.x) / LANES * LANES;
    int row = linear_group() * ROWS + int(gl_LocalInvocationID.x) / LANES;
    bool inside = row < p.rows;
    int outer, within;
    divide_rest(min(row, p.rows - 1), p.inner, outer, within);
    int base = outer * p.count * p.inner + within;

    int start = min(lane, p.count - 1);
    VALUES best = LOAD(x, base + start * p.inner);
    PLACES at = PLACES(start);
    for (int k = lane + LANES; k < p.count; k += LANES) take(LOAD(x, base + k * p.inner), PLACES(k), best, at);
    if (LANES > 1) {
        best_of[first + lane] = best;
        place_of[first + lane] = at;
        barrier();
        for (int half_ = LANES / 2; half_ > 0; half_ /= 2) {
            if (lane < half_) {
                best = best_of[first + lane];
                at = place_of[first + lane];
                take(best_of[first + lane + half_], place_of[first + lane + half_], best, at);
                best_of[first + lane] = best;
                place_of[first + lane] = at;
            }
            barrier();
        }
        at = place_of[first];
    }
    if (!inside || lane != 0) return;
#if WIDE
    if (PADDING_LANES != 0) {
        int plane = quotient(base, p.plane);
        int block = plane - quotient(plane, p.blocks) * p.blocks;
        at = mix(ivec4(0), at, lessThan(4 * block + ivec4(0, 1, 2, 3), ivec4(p.channels)));
    }
    STORE4(y, row, at);
#else
    STORE1(y, row, at);
#endif
}
