#version 450
#pragma vknn variants ACCESS=0,1,2 BYTES=0,1
#pragma vknn variants ACCESS=0,1,2 BYTES=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"
#include "common/mathf.glsl"
#include "quantized/channel.glsl"
#include "quantized/rounding.glsl"

// y = (x - zero) * scale + bias, rounded once. BYTES: x in C4B, y in C4. An item is a vec4.

#if BYTES
INPUT1I(0, x);
#else
INPUT4I(0, x);
#endif
INPUT1S(1, scale);
INPUT1S(2, bias);
OUTPUT4F(3, y);

layout(constant_id = 10) const int C4 = 0;
layout(constant_id = 11) const int SCALE_VECTOR = 0;
layout(constant_id = 12) const int BIAS_VECTOR = 0;
layout(constant_id = 13) const int BIAS = 0;
layout(constant_id = 16) const int PADDING_LANES = 0;  // C4: there are lanes behind the last channel

layout(push_constant) uniform P {
    int count, chunk;
    int inner;
    int channels;
    int zero;
} p;

void main() {
    // Read before the loop: CPU drivers read it anew wherever it stands.
    vec4 s = vec4(LOAD1(scale, 0)), b = vec4(LOAD1(bias, 0));
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        if (SCALE_VECTOR != 0 || BIAS_VECTOR != 0) {
            ivec4 c = channels_of(C4, i, p.inner, p.channels);
            if (SCALE_VECTOR != 0)
                s = vec4(LOAD1(scale, c.x), LOAD1(scale, c.y), LOAD1(scale, c.z), LOAD1(scale, c.w));
            if (BIAS_VECTOR != 0)
                b = vec4(LOAD1(bias, c.x), LOAD1(bias, c.y), LOAD1(bias, c.z), LOAD1(bias, c.w));
        }
#if BYTES
        ivec4 whole = bytes_of(LOAD1(x, i), BYTES_UNSIGNED);
#else
        ivec4 whole = LOAD4(x, i);
#endif
        vec4 v = vec4(whole - p.zero);
        if (BIAS != 0) v = m_fma(v, s, b);
        else v *= s;
        if (PADDING_LANES != 0) v = keep_channels(v, i, p.inner, p.channels);
        STORE4(y, i, v);
    }
}
