#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 OUT4=0 STAGE=0
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=1 OUT4=1 STAGE=0
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 OUT4=1 STAGE=1
#pragma vknn variants ACCESS=0 ELEM=0 WIDE=1 OUT4=0,1 STAGE=2
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 OUT4=0 STAGE=0 HALF=1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=1 OUT4=1 STAGE=0 HALF=1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 OUT4=1 STAGE=1 HALF=1
#pragma vknn variants ACCESS=0 ELEM=0 WIDE=1 OUT4=0,1 STAGE=2 HALF=1
#pragma vknn variants ACCESS=0 ELEM=1 WIDE=0,1 OUT4=0 STAGE=0
#pragma vknn variants ACCESS=0 ELEM=1 WIDE=1 OUT4=1 STAGE=0
#pragma vknn variants ACCESS=0 ELEM=1 WIDE=0,1 OUT4=1 STAGE=1
#pragma vknn variants ACCESS=0 ELEM=1 WIDE=1 OUT4=0,1 STAGE=2
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/extremes.glsl"
#include "common/indexing.glsl"
#include "common/mathf.glsl"

// The sum, product, maximum... of each row (reduction/reduction_axes.glsl). OUT4: the result is a vec4
// for each row, of four rows side by side, or of one in the first lane. Not OUT4: a scalar.
//
// STAGE 0 does it at once. Few long rows are cut into parts: 1 leaves a vec4 for each part of a row,
// 2 makes the result of those.

#if STAGE == 2
#if ELEM == 0
INPUT4S(0, x);
#else
INPUT4I(0, x);
#endif
#elif WIDE
INPUT4(0, x);
#else
INPUT1(0, x);
#endif
#if STAGE == 1
#if ELEM == 0
OUTPUT4S(1, y);
#else
OUTPUT4I(1, y);
#endif
#elif OUT4
OUTPUT4(1, y);
#else
OUTPUT1(1, y);
#endif

layout(constant_id = 10) const int LANES = 1;
layout(constant_id = 11) const int ROWS = 1;
layout(constant_id = 16) const int JOIN = 0;    // 0 sum, 1 product, 2 maximum, 3 minimum
layout(constant_id = 17) const int TERM = 0;    // 0 x, 1 |x|, 2 x * x, 3 exp(x - max)
layout(constant_id = 18) const int FINISH = 0;  // 0 as it is, 1 times `factor`, 2 root, 3 logarithm
layout(constant_id = 19) const int SINGLE = 0;  // C4 with one channel: only lane 0 holds something
#include "reduction/reduction_axes.glsl"

const int BLOCK = 32;  // terms of a lane that are joined before they are joined to the others

layout(push_constant) uniform P {
    AXES_MEMBERS;
    int parts, chunk;  // STAGE 1: parts of a row, items of a part
    float factor;
} p;

AXES_FUNCTIONS

#if ELEM == 0
#define LOWEST (-M_INF)
#define HIGHEST M_INF
#else
#define LOWEST (-2147483647 - 1)
#define HIGHEST 2147483647
#endif

shared VEC4 parts_of_rows[LANES > 1 ? LANES * ROWS : 1];

VEC4 neutral() {
    if (JOIN == 0) return VEC4(0);
    if (JOIN == 1) return VEC4(1);
    return JOIN == 2 ? VEC4(LOWEST) : VEC4(HIGHEST);
}

VEC4 join(VEC4 a, VEC4 b) {
    if (JOIN == 0) return a + b;
    if (JOIN == 1) return a * b;
#if ELEM == 0
    return JOIN == 2 ? larger(a, b) : smaller(a, b);
#else
    return JOIN == 2 ? max(a, b) : min(a, b);
#endif
}

// `outside` in the lanes that do not belong to the row.
VEC4 item(int base, int k, VEC4 outside) {
#if WIDE
    int at = base + place_of(k);
    VEC4 v = LOAD4(x, at);
#if STAGE != 2
    if (ACROSS != 0 && PADDING_LANES != 0) v = mix(outside, v, within_channels(at));
#endif
#else
    int e = 4 * k, last = p.extent - 1;
    VEC4 v = VEC4(LOAD1(x, base + place_of(e)), LOAD1(x, base + place_of(min(e + 1, last))),
                  LOAD1(x, base + place_of(min(e + 2, last))),
                  LOAD1(x, base + place_of(min(e + 3, last))));
    v = mix(outside, v, lessThanEqual(e + ivec4(0, 1, 2, 3), ivec4(last)));
#endif
    return v;
}

VEC4 term(VEC4 v, VEC4 most) {
#if STAGE == 2
    return v;
#else
    if (TERM == 1) return abs(v);
    if (TERM == 2) return v * v;
#if ELEM == 0
    if (TERM == 3) return m_exp(v - most);
#endif
    return v;
#endif
}

// The values of the lanes of a row, joined: in every lane, and with ACROSS in every component.
VEC4 joined(VEC4 v) {
    if (LANES > 1) {
        int lane = row_lane();
        int at = row_of_group() * LANES;
        parts_of_rows[at + lane] = v;
        barrier();
        for (int half_ = LANES / 2; half_ > 0; half_ /= 2) {
            if (lane < half_)
                parts_of_rows[at + lane] = join(parts_of_rows[at + lane], parts_of_rows[at + lane + half_]);
            barrier();
        }
        v = parts_of_rows[at];
        barrier();
    }
#if STAGE != 1
    if (ACROSS != 0) {
        v = join(v, v.zwxy);
        v = join(v, v.yxwz);
    }
#endif
    return v;
}

#if ELEM == 0
// The largest of a row, or 0 where that is infinite.
vec4 shift_of(int base, int first, int end) {
    vec4 most = vec4(-M_INF);
    for (int k = first; k < end; k += LANES) most = max(most, item(base, k, vec4(-M_INF)));
    if (LANES > 1) {
        int lane = row_lane();
        int at = row_of_group() * LANES;
        parts_of_rows[at + lane] = most;
        barrier();
        for (int half_ = LANES / 2; half_ > 0; half_ /= 2) {
            if (lane < half_)
                parts_of_rows[at + lane] = max(parts_of_rows[at + lane], parts_of_rows[at + lane + half_]);
            barrier();
        }
        most = parts_of_rows[at];
        barrier();
    }
    if (ACROSS != 0) most = vec4(max(max(most.x, most.y), max(most.z, most.w)));
    return mix(most, vec4(0.0), isinf(most));
}

vec4 finished(vec4 v, vec4 most) {
    if (FINISH == 1) return v * p.factor;
    if (FINISH == 2) return sqrt(v);
    if (FINISH == 3) return m_log(v) + most;
    return v;
}
#else
ivec4 finished(ivec4 v, ivec4 most) { return v; }
#endif

void main() {
    int row = linear_group() * ROWS + row_of_group();
    bool inside = row < p.rows;
    int whole = min(row, p.rows - 1), first = 0, end = p.count;
#if STAGE == 1
    int part;
    divide_rest(whole, p.parts, whole, part);
    first = part * p.chunk;
    end = min(first + p.chunk, p.count);
#endif
    int base = row_base(whole);
    first += row_lane();

    VEC4 most = VEC4(0);
    VEC4 outside = neutral();
#if ELEM == 0 && STAGE == 0
    if (TERM == 3) {
        most = shift_of(base, first, end);
        outside = vec4(-M_INF);  // exp(-inf) is 0
    }
#endif
    // In blocks: one running sum of many like terms errs as often to the same side.
    VEC4 total = neutral();
    for (int block = first; block < end; block += BLOCK * LANES) {
        VEC4 part = neutral();
        int stop = block + BLOCK * LANES < end ? block + BLOCK * LANES : end;
        for (int k = block; k < stop; k += LANES) part = join(part, term(item(base, k, outside), most));
        total = join(total, part);
    }
    total = joined(total);
    if (!inside || row_lane() != 0) return;
#if STAGE == 1
    STORE4(y, row, total);
#else
    VEC4 v = finished(total, most);
#if OUT4
    if (SINGLE != 0) v = VEC4(v.x, 0, 0, 0);
    else if (PADDING_LANES != 0) v = mix(VEC4(0), v, within_channels(base));
    STORE4(y, row, v);
#else
    STORE1(y, row, v.x);
#endif
#endif
}
