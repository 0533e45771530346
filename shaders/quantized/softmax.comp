#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"
#include "common/mathf.glsl"

// QuantizedSoftmax: a lane takes whole rows. Sums run in the order of the row, in float32, and nothing
// is contracted: the result is the reference's, bit by bit.

INPUT1I(0, x);
INPUT1S(1, table);
OUTPUT1I(2, y);

layout(constant_id = 10) const int LOGARITHM = 0;

layout(push_constant) uniform P {
    int rows, width, chunk;
    float scale, step_in;
    int zero, low, high;
} p;

// a / b as IEEE division rounds it; Vulkan allows a device to be off by 2.5 ulp.
float divided(float a, float b) {
    precise float q = a / b;
    precise float rest = fma(-q, b, a);
    precise float better = q + rest / b;
    return better;
}

void main() {
    FOR_EACH_ITEM(row, p.rows, p.chunk) {
        int base = row * p.width, largest = LOAD1(x, base);
        for (int i = 1; i < p.width; ++i) largest = max(largest, LOAD1(x, base + i));
        precise float sum = 0.0;
        for (int i = 0; i < p.width; ++i)
            sum = sum + LOAD1(table, 255 - (largest - LOAD1(x, base + i)));
        precise float scaled = sum * p.scale;
        float inverse = divided(1.0, scaled);
        float step_ = divided(p.step_in, p.scale);
        precise float top = float(largest) * p.step_in;
        precise float moved = top + m_log(vec4(sum)).x;
        float offset = divided(moved, p.scale);
        for (int i = 0; i < p.width; ++i) {
            int code = LOAD1(x, base + i), whole;
            if (LOGARITHM != 0) {
                precise float product = float(code) * step_;
                precise float v = product - offset;
                whole = int(roundEven(clamp(v, -65536.0, 65536.0)));
            } else {
                precise float v = LOAD1(table, 255 - (largest - code)) * inverse;
                whole = int(floor(v + 0.5));  // v is not negative and far from where 0.5 is lost
            }
            STORE1(y, base + i, clamp(whole + p.zero, p.low, p.high));
        }
    }
}
