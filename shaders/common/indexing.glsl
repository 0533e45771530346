// Items of a dispatch shared out among its lanes, as vknn.lowering.kit.grid_loop plans it: each workgroup
// takes `chunk` items in a row, its lanes side by side, so that a lane has several of them.

#ifndef VKNN_INDEXING_GLSL
#define VKNN_INDEXING_GLSL

#include "common/grid.glsl"

#define FOR_EACH_ITEM(i, count, chunk) \
    for (int i = linear_group() * (chunk) + int(gl_LocalInvocationID.x), \
             i##_end = min((linear_group() + 1) * (chunk), count); \
         i < i##_end; i += int(gl_WorkGroupSize.x))

// 1: no index is above 2^20 (vknn.lowering.kit.grid_loop), where a float quotient needs no correction: with
// half a unit added it is at least 1 / 2b away from the next whole number, and its error is less,
// even where a division is right to 2.5 units in the last place only.
layout(constant_id = 99) const int FEW_ITEMS = 0;

// a / b for a >= 0, b > 0, exact
int quotient(int a, int b) {
    int q;
    if (FEW_ITEMS != 0) q = int((float(a) + 0.5) * (1.0 / float(b)));
    else q = divide(a, b);
    return q;
}

// a = q * b + rest
void divide_rest(int a, int b, out int q, out int rest) {
    q = quotient(a, b);
    rest = a - q * b;
}

#endif
