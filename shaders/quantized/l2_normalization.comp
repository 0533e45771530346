#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"
#include "quantized/inverse_root.glsl"

// QuantizedL2Normalization: a lane takes whole rows.

INPUT1I(0, x);
OUTPUT1I(1, y);

layout(constant_id = 10) const int UNSIGNED = 0;

layout(push_constant) uniform P {
    int rows, width, chunk;
    int zero;
} p;

void main() {
    FOR_EACH_ITEM(row, p.rows, p.chunk) {
        int base = row * p.width, sum = 0, q, shift;
        for (int i = 0; i < p.width; ++i) {
            int v = LOAD1(x, base + i) - p.zero;
            sum += v * v;
        }
        inverse_root(sum, q, shift);
        for (int i = 0; i < p.width; ++i) {
            int v = LOAD1(x, base + i) - p.zero;
            if (UNSIGNED != 0) {
                v = fixed_multiply(ivec4(128 * v), ivec4(q), ivec4(shift)).x + 128;
                v = clamp(v, 0, 255);
            } else {
                v = clamp(fixed_multiply(ivec4(v), ivec4(q), ivec4(shift + 7)).x, -128, 127);
            }
            STORE1(y, base + i, v);
        }
    }
}
