#version 450
#pragma vknn variants ACCESS=0,1,2 WIDE=0,1
#pragma vknn variants ACCESS=0,1,2 WIDE=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"
#include "common/mathf.glsl"

// y = exp(x - max) / sum along an axis, or its logarithm. A row has `count` vec4s, `inner` apart.
// ACROSS: the axis runs through the lanes of the vec4s (rows of LINEAR, channels of C4), of which
// `axis` count; otherwise four rows lie side by side in a vec4. Not WIDE: ACROSS, the lanes are
// gathered from scalars that are `inner` apart.
#if WIDE
INPUT4F(0, x);
OUTPUT4F(1, y);
#else
INPUT1F(0, x);
OUTPUT1F(1, y);
#endif

layout(constant_id = 10) const int LANES = 1;
layout(constant_id = 11) const int ROWS = 1;
layout(constant_id = 12) const int ACROSS = 0;
layout(constant_id = 13) const int PADDING_LANES = 0;  // C4: lanes behind the last channel are padding
layout(constant_id = 14) const int LOGARITHM = 0;
#include "normalization/row_reduce.glsl"

layout(push_constant) uniform P {
    int rows, count, inner, axis, spatial, blocks, channels;
} p;

vec4 element(int base, int k) {
#if WIDE
    vec4 v = LOAD4(x, base + k * p.inner);
#else
    int last = p.axis - 1, e = 4 * k;
    vec4 v = vec4(LOAD1(x, base + e * p.inner), LOAD1(x, base + min(e + 1, last) * p.inner),
                  LOAD1(x, base + min(e + 2, last) * p.inner),
                  LOAD1(x, base + min(e + 3, last) * p.inner));
#endif
    if (ACROSS != 0) v = mix(vec4(-M_INF), v, lessThan(4 * k + ivec4(0, 1, 2, 3), ivec4(p.axis)));
    return v;
}

vec4 max_over_lanes(vec4 v) {
    if (ACROSS != 0) v = vec4(row_max(max(max(v.x, v.y), max(v.z, v.w))));
    return v;
}

vec4 sum_over_lanes(vec4 v) {
    if (ACROSS != 0) v = vec4(row_sum((v.x + v.y) + (v.z + v.w)));
    return v;
}

void main() {
    int lane = row_lane();
    int row = linear_group() * ROWS + row_of_group();
    bool inside = row < p.rows;
    int outer, place;
    divide_rest(min(row, p.rows - 1), p.inner, outer, place);
#if WIDE
    int base = outer * p.count * p.inner + place;
#else
    int base = outer * p.axis * p.inner + place;
#endif

    vec4 most = vec4(-M_INF);
    for (int k = lane; k < p.count; k += LANES) most = max(most, element(base, k));
    most = max_over_lanes(most);

    vec4 sum = vec4(0.0);
    for (int k = lane; k < p.count; k += LANES) sum += m_exp(element(base, k) - most);
    sum = sum_over_lanes(sum);

    if (!inside) return;
    int plane = divide(base, p.spatial);
    int block = plane - divide(plane, p.blocks) * p.blocks;
    if (LOGARITHM != 0) sum = m_log(sum);
    for (int k = lane; k < p.count; k += LANES) {
        vec4 v = element(base, k) - most;
        v = LOGARITHM != 0 ? v - sum : m_exp(v) / sum;
        if (PADDING_LANES != 0) v = zero_padding_lanes(v, ACROSS != 0 ? k : block, p.channels);
#if WIDE
        STORE4(y, base + k * p.inner, v);
#else
        int to = base + 4 * k * p.inner, behind = p.axis - 4 * k;
        STORE1(y, to, v.x);
        if (behind > 1) STORE1(y, to + p.inner, v.y);
        if (behind > 2) STORE1(y, to + 2 * p.inner, v.z);
        if (behind > 3) STORE1(y, to + 3 * p.inner, v.w);
#endif
    }
}
