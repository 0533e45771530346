#version 450
#pragma vknn variants ACCESS=0,1,2 MASKED=0,1
#pragma vknn variants ACCESS=0,1,2 MASKED=1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "common/mathf.glsl"

// y = softmax(x + mask) over rows of `count` scores in `width` vec4s; the remainder of a row of y is
// zero, whatever x has there. The mask has a step for each axis of [batch, heads, queries, keys] and
// begins at mask_first.

INPUT4S(0, x);
OUTPUT4S(1, y);
#if MASKED == 1
INPUT1F(2, mask);
#endif

layout(constant_id = 10) const int LANES = 1;
layout(constant_id = 11) const int ROWS = 1;
layout(constant_id = 12) const int EMPTY_ZERO = 0;  // 1: a row of -inf alone gives 0, not NaN
#include "normalization/row_reduce.glsl"

layout(push_constant) uniform P {
    int rows;
    int count;
    int width;
    int queries;
    int heads;
    int mask_first;
    int batch_step;
    int head_step;
    int query_step;
    int key_step;
} p;

vec4 scores(int base, int mask_base, int i) {
    vec4 v = LOAD4(x, base + i);
    ivec4 key = 4 * i + ivec4(0, 1, 2, 3);
#if MASKED == 1
    ivec4 at = mask_base + min(key, ivec4(p.count - 1)) * p.key_step;
    v += vec4(LOAD1(mask, at.x), LOAD1(mask, at.y), LOAD1(mask, at.z), LOAD1(mask, at.w));
#endif
    return mix(vec4(-M_INF), v, lessThan(key, ivec4(p.count)));
}

void main() {
    int lane = row_lane();
    int row = linear_group() * ROWS + row_of_group();
    bool inside = row < p.rows;
    row = min(row, p.rows - 1);
    int base = row * p.width;
    int query = row % p.queries, head = row / p.queries % p.heads;
    int mask_base = p.mask_first + row / (p.queries * p.heads) * p.batch_step
        + head * p.head_step + query * p.query_step;

    vec4 most4 = vec4(-M_INF);
    for (int i = lane; i < p.width; i += LANES) most4 = max(most4, scores(base, mask_base, i));
    float most = row_max(max(max(most4.x, most4.y), max(most4.z, most4.w)));
    if (EMPTY_ZERO != 0 && most == -M_INF) most = 0.0;

    vec4 sum4 = vec4(0.0);
    for (int i = lane; i < p.width; i += LANES) sum4 += m_exp(scores(base, mask_base, i) - most);
    float sum = row_sum((sum4.x + sum4.y) + (sum4.z + sum4.w));
    if (EMPTY_ZERO != 0 && sum == 0.0) sum = 1.0;

    if (!inside) return;
    for (int i = lane; i < p.width; i += LANES) {
        vec4 v = m_exp(scores(base, mask_base, i) - most) / sum;
        bvec4 real = lessThan(4 * i + ivec4(0, 1, 2, 3), ivec4(p.count));
        STORE4(y, base + i, mix(vec4(0.0), v, real));
    }
}
