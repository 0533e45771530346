#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// QuantizedLayerNormalization: a lane takes whole rows, and adds up in order.

INPUT1I(0, x);
INPUT1I(1, weight);
INPUT1I(2, bias);
OUTPUT1I(3, y);

layout(push_constant) uniform P {
    int rows, width, chunk;
    float scale;
} p;

void main() {
    float bias_scale = p.scale * 0.0009765625;
    FOR_EACH_ITEM(row, p.rows, p.chunk) {
        int base = row * p.width;
        precise float sum = 0.0, squares = 0.0;
        for (int i = 0; i < p.width; ++i) {
            precise float v = float(LOAD1(x, base + i)), square = v * v;
            sum += v;
            squares += square;
        }
        precise float mean = sum / float(p.width), square = mean * mean;
        precise float variance = squares / float(p.width) - square;
        bool negative = variance < 0.0;
        precise float root = 1.0 / sqrt(variance == 0.0 ? 1e-8 : abs(variance));
        for (int i = 0; i < p.width; ++i) {
            precise float v = (float(LOAD1(x, base + i)) - mean) * root;
            precise float weighted = v * float(LOAD1(weight, i)) * p.scale;
            precise float shift = float(LOAD1(bias, i)) * bias_scale;
            precise float moved = (weighted + shift) * 4096.0;
            float whole = trunc(moved);
            whole += abs(moved - whole) >= 0.5 ? sign(moved) : 0.0;
            bool held = !negative && abs(whole) < 2147483648.0;
            STORE1(y, base + i, held ? int(clamp(whole, -32768.0, 32767.0)) : -32768);
        }
    }
}
