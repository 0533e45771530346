#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"
#include "random/philox.glsl"

// Classes drawn by their weights, a lane four of them. `sums`: random/sums.comp.

INPUT1S(0, sums);
INPUT1I(1, draw);
OUTPUT4I(2, y);

layout(push_constant) uniform P {
    int count, chunk;
    int key_low, key_high;
    int elements, samples, classes;
} p;

// The first class up to which the weights exceed `part` of their sum.
int chosen(int element, float part) {
    int row = quotient(min(element, p.elements - 1), p.samples);
    int first = row * p.classes, low = 0, high = p.classes;
    precise float wanted = part * LOAD1(sums, first + p.classes - 1);
    while (low < high) {
        int middle = (low + high) >> 1;
        if (LOAD1(sums, first + middle) > wanted) high = middle;
        else low = middle + 1;
    }
    return min(low, p.classes - 1);
}

void main() {
    uint number = uint(LOAD1(draw, 0));
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        vec4 u = fractions(philox(uint(i), number, uvec2(uint(p.key_low), uint(p.key_high))));
        int e = 4 * i;
        STORE4(y, i, ivec4(chosen(e, u.x), chosen(e + 1, u.y), chosen(e + 2, u.z), chosen(e + 3, u.w)));
    }
}
