#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 HALF=1
#pragma vknn variants ACCESS=0 ELEM=1 WIDE=0,1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// Running sums, or PRODUCTs, along an axis of `count` elements that are `inner` apart; WIDE: four rows lie side by
// side in a vec4. Each of the LANES of a row adds up a run of `chunk` elements, then goes over it again
// from the sum of the runs before it.
#if WIDE
#define VALUE VEC4
#define LOAD LOAD4
#define STORE STORE4
INPUT4(0, x);
OUTPUT4(1, y);
#else
#define VALUE SCALAR
#define LOAD LOAD1
#define STORE STORE1
INPUT1(0, x);
OUTPUT1(1, y);
#endif

layout(constant_id = 10) const int LANES = 1;
layout(constant_id = 11) const int ROWS = 1;
layout(constant_id = 12) const int EXCLUSIVE = 0;
layout(constant_id = 13) const int REVERSE = 0;
layout(constant_id = 14) const int PRODUCT = 0;

layout(push_constant) uniform P { int rows, count, inner, chunk; } p;

shared VALUE runs[LANES > 1 ? LANES * ROWS : 1];

// Place of element k in the order of the sum.
int place(int base, int k) { return base + (REVERSE != 0 ? p.count - 1 - k : k) * p.inner; }

VALUE combined(VALUE a, VALUE b) { return PRODUCT != 0 ? a * b : a + b; }

void main() {
    int lane = int(gl_LocalInvocationID.x) % LANES;
    int row_in_group = int(gl_LocalInvocationID.x) / LANES;
    int row = linear_group() * ROWS + row_in_group;
    bool inside = row < p.rows;
    int outer, within;
    divide_rest(min(row, p.rows - 1), p.inner, outer, within);
    int base = outer * p.count * p.inner + within;
    int first = lane * p.chunk, end = min(first + p.chunk, p.count);

    VALUE none = VALUE(PRODUCT != 0 ? 1 : 0), sum = none;
    if (LANES > 1) {
        for (int k = first; k < end; k++) sum = combined(sum, LOAD(x, place(base, k)));
        runs[row_in_group * LANES + lane] = sum;
        barrier();
        sum = none;
        for (int i = 0; i < lane; i++) sum = combined(sum, runs[row_in_group * LANES + i]);
    }
    if (!inside) return;
    for (int k = first; k < end; k++) {
        int at = place(base, k);
        VALUE before = sum;
        sum = combined(sum, LOAD(x, at));
        STORE(y, at, EXCLUSIVE != 0 ? before : sum);
    }
}
