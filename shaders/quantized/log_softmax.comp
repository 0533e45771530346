#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"
#include "quantized/log_softmax.glsl"

// QuantizedLogSoftmax: a lane takes whole rows. Sums run in the order of the row, in float32.

INPUT1I(0, x);
INPUT1S(1, table);
OUTPUT1I(2, y);

layout(push_constant) uniform P {
    int rows, width, chunk;
    float scale, step_in;
    int zero, low, high;
} p;

void main() {
    FOR_EACH_ITEM(row, p.rows, p.chunk) {
        int base = row * p.width, largest = LOAD1(x, base);
        for (int i = 1; i < p.width; ++i) largest = max(largest, LOAD1(x, base + i));
        precise float sum = 0.0;
        for (int i = 0; i < p.width; ++i)
            sum = sum + LOAD1(table, 255 - (largest - LOAD1(x, base + i)));
        Softmax s = softmax_of(sum, largest, p.scale, p.step_in);
        for (int i = 0; i < p.width; ++i) {
            int whole = logarithm_of(LOAD1(x, base + i), s);
            STORE1(y, base + i, clamp(whole + p.zero, p.low, p.high));
        }
    }
}
