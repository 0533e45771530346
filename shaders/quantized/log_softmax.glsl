// QuantizedLogSoftmax behind the sum of its row. Nothing is contracted: the result is the reference's, bit
// by bit. Include common/tensor.glsl first.

#include "common/mathf.glsl"

// a / b as IEEE division rounds it; Vulkan allows a device to be off by 2.5 ulp.
float divided(float a, float b) {
    precise float q = a / b;
    precise float rest = fma(-q, b, a);
    precise float better = q + rest / b;
    return better;
}

// What all elements of a row need.
struct Softmax {
    float step_, offset;
};

Softmax softmax_of(float sum, int largest, float scale, float step_in) {
    precise float top = float(largest) * step_in;
    precise float moved = top + m_log(vec4(sum)).x;
    return Softmax(divided(step_in, scale), divided(moved, scale));
}

int logarithm_of(int code, Softmax s) {
    precise float product = float(code) * s.step_;
    precise float v = product - s.offset;
    return int(roundEven(clamp(v, -65536.0, 65536.0)));
}
