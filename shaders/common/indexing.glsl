// Items of a dispatch shared out among its lanes, as vknn.lowering.indexing plans it: each workgroup
// takes `chunk` items in a row, its lanes side by side, so that a lane has several of them.

#ifndef VKNN_INDEXING_GLSL
#define VKNN_INDEXING_GLSL

#include "common/grid.glsl"

#define FOR_EACH_ITEM(i, count, chunk) \
    for (int i = linear_group() * (chunk) + int(gl_LocalInvocationID.x), \
             i##_end = min((linear_group() + 1) * (chunk), count); \
         i < i##_end; i += int(gl_WorkGroupSize.x))

// a = quotient * b + rest
void divide_rest(int a, int b, out int quotient, out int rest) {
    quotient = divide(a, b);
    rest = a - quotient * b;
}

#endif
