// The activations of recurrent cells (vknn.ops.recurrent.rnn.ACTIVATIONS, in that order), chosen by
// specialization constants.

#include "common/extremes.glsl"
#include "common/mathf.glsl"

// f: of the gates; g: of what is new; h: of the cell.
layout(constant_id = 30) const int F_CODE = 0;
layout(constant_id = 31) const float F_ALPHA = 0.0;
layout(constant_id = 32) const float F_BETA = 0.0;
layout(constant_id = 33) const int G_CODE = 0;
layout(constant_id = 34) const float G_ALPHA = 0.0;
layout(constant_id = 35) const float G_BETA = 0.0;
layout(constant_id = 36) const int H_CODE = 0;
layout(constant_id = 37) const float H_ALPHA = 0.0;
layout(constant_id = 38) const float H_BETA = 0.0;

#define ACTIVATION(name, which) \
    vec4 name(vec4 v) { \
        vec4 y = v; \
        if (which##_CODE == 0) y = m_sigmoid(v); \
        if (which##_CODE == 1) y = m_tanh(v); \
        if (which##_CODE == 2) y = larger(v, vec4(0.0)); \
        if (which##_CODE == 3) y = which##_ALPHA * v + which##_BETA; \
        if (which##_CODE == 4) y = if_(lessThan(v, vec4(0.0)), which##_ALPHA * v, v); \
        if (which##_CODE == 5) y = if_(greaterThanEqual(v, vec4(which##_ALPHA)), v, vec4(0.0)); \
        if (which##_CODE == 6) y = which##_ALPHA * m_tanh(which##_BETA * v); \
        if (which##_CODE == 7) y = bounded_by(which##_ALPHA * v + which##_BETA, 0.0, 1.0); \
        if (which##_CODE == 8) y = if_(lessThan(v, vec4(0.0)), which##_ALPHA * m_expm1(v), v); \
        if (which##_CODE == 9) y = v / (1.0 + abs(v)); \
        if (which##_CODE == 10) y = m_softplus(v); \
        if (which##_CODE == 11) y = bounded_by(v, which##_ALPHA, which##_BETA); \
        if (which##_CODE == 12) y = vec4(floatBitsToUint(v) >> 31); \
        return y; \
    }

ACTIVATION(activation_f, F)
ACTIVATION(activation_g, G)
ACTIVATION(activation_h, H)

// Bounds on the arguments of f and g, on the cell, on the projection; 0: none.
layout(constant_id = 40) const float CLIP = 0.0;
layout(constant_id = 41) const float CELL_CLIP = 0.0;
layout(constant_id = 42) const float PROJECTION_CLIP = 0.0;
layout(constant_id = 43) const int BOUNDED = 0;  // bit 0: CLIP, 1: CELL_CLIP, 2: PROJECTION_CLIP

vec4 bounded(vec4 v) {
    if ((BOUNDED & 1) != 0) v = bounded_by(v, -CLIP, CLIP);
    return v;
}

vec4 gate_f(vec4 v) { return activation_f(bounded(v)); }
vec4 gate_g(vec4 v) { return activation_g(bounded(v)); }
