#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#define ELEM 1
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// Images in C4, interpolated between two neighbours along each axis with weights of 10 bits, or in
// float32. Table entry: both neighbours, the weight of the second (FLOATING: its bits); first those of
// the columns, then of the rows.
INPUT4I(0, x);
INPUT4I(1, table);
OUTPUT4I(2, y);

layout(constant_id = 10) const int FLOATING = 0;

layout(push_constant) uniform P { int count, chunk, height, width, in_height, in_width; } p;

// (a * v + b * w + 2^19) / 2^20 in 64 bits, halves away from zero.
ivec4 mixed(ivec4 a, ivec4 b, int v, int w) {
    ivec4 high_a, low_a, high_b, low_b;
    imulExtended(a, ivec4(v), high_a, low_a);
    imulExtended(b, ivec4(w), high_b, low_b);
    uvec4 low = uvec4(low_a) + uvec4(low_b);
    ivec4 high = high_a + high_b + ivec4(lessThan(low, uvec4(low_a)));
    bvec4 negative = lessThan(high, ivec4(0));
    high = mix(high, ~high + ivec4(equal(low, uvec4(0))), negative);
    low = mix(low, ~low + 1u, negative);
    uvec4 sum = low + (1u << 19);
    high += ivec4(lessThan(sum, low));
    ivec4 rounded = (high << 12) | ivec4(sum >> 20);
    return mix(rounded, -rounded, negative);
}

// Each product and sum rounded by itself, in this order; halves up.
ivec4 floating(ivec4 a, ivec4 b, ivec4 c, ivec4 d, float down, float across) {
    float up = 1.0 - down, back = 1.0 - across;
    precise vec4 left = vec4(a) * up * back, left_lower = vec4(b) * down * back;
    precise vec4 right = vec4(c) * up * across, right_lower = vec4(d) * down * across;
    precise vec4 sum = left + left_lower;
    sum = sum + right;
    sum = sum + right_lower;
    vec4 whole = floor(sum);
    return ivec4(whole) + ivec4(greaterThanEqual(sum - whole, vec4(0.5)));
}

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int rest, row, column, image;
        divide_rest(i, p.width, rest, column);
        divide_rest(rest, p.height, image, row);
        ivec4 across = LOAD4(table, column), down = LOAD4(table, p.width + row);
        int upper = (image * p.in_height + down.x) * p.in_width;
        int lower = (image * p.in_height + down.y) * p.in_width;
        ivec4 a = LOAD4(x, upper + across.x), b = LOAD4(x, lower + across.x);
        ivec4 c = LOAD4(x, upper + across.y), d = LOAD4(x, lower + across.y);
        ivec4 v;
        if (FLOATING != 0) {
            v = floating(a, b, c, d, intBitsToFloat(down.z), intBitsToFloat(across.z));
        } else {
            int up = 1024 - down.z;
            v = mixed(a * up + b * down.z, c * up + d * down.z, 1024 - across.z, across.z);
        }
        STORE4(y, i, v);
    }
}
