// The elementwise operators by opcode (common/opcode_numbers.glsl).
//
// UNARY_OP(code, y, v, a, b)    y = op(v); a, b: the op's attributes. y and v may be one variable.
// BINARY_OP(code, y, v, w)      y = op(v, w)
// Statements; y keeps its value where the code is 0. `code` must be the name of a specialization
// constant itself: then its dead branches are cut before a driver sees them. Not-a-number goes
// through every op as in NumPy.

#ifndef VKNN_OPCODES_GLSL
#define VKNN_OPCODES_GLSL

#include "common/mathf.glsl"
#include "common/opcode_numbers.glsl"

vec4 op_clip(vec4 v, float a, float b) {
    vec4 y = if_(lessThan(v, vec4(a)), vec4(a), v);
    return if_(greaterThan(y, vec4(b)), vec4(b), y);
}

vec4 op_gelu_tanh(vec4 v) {
    return 0.5 * v * (1.0 + m_tanh(0.7978845608 * (v + 0.044715 * v * v * v)));
}

vec4 op_shrink(vec4 v, float bias, float lambd) {
    vec4 y = if_(greaterThan(v, vec4(lambd)), v - bias, vec4(0.0));
    y = if_(lessThan(v, vec4(-lambd)), v + bias, y);
    return if_(isnan(v), v, y);
}

// below where v < 0, v elsewhere
vec4 op_negative_part(vec4 v, vec4 below) { return if_(lessThan(v, vec4(0.0)), below, v); }

// A remainder moved to the sign of the divisor.
vec4 op_sign_of(vec4 rest, vec4 w) {
    vec4 moved = if_(lessThan(rest * sign(w), vec4(0.0)), rest + w, rest);
    return if_(equal(rest, vec4(0.0)), rest, moved);
}

vec4 op_signs(vec4 v) {
    vec4 y = if_(greaterThan(v, vec4(0.0)), vec4(1.0), v);
    return if_(lessThan(v, vec4(0.0)), vec4(-1.0), y);
}

#define UNARY_OP(code, y, v, a, b) \
    switch (code) { \
    case OP_ABS: y = abs(v); break; \
    case OP_NEG: y = -v; break; \
    case OP_FLOOR: y = floor(v); break; \
    case OP_CEIL: y = ceil(v); break; \
    case OP_SQUARE: y = v * v; break; \
    case OP_SQRT: y = sqrt(v); break; \
    case OP_RSQRT: y = 1.0 / sqrt(v); break; \
    case OP_EXP: y = m_exp(v); break; \
    case OP_LOG: y = m_log(v); break; \
    case OP_LOG10: y = m_log(v) * 0.4342944819; break; \
    case OP_LOG1P: y = m_log1p(v); break; \
    case OP_EXPM1: y = m_expm1(v); break; \
    case OP_SIN: y = m_sin_shifted(v, 0); break; \
    case OP_COS: y = m_sin_shifted(v, 1); break; \
    case OP_TAN: y = m_tan(v); break; \
    case OP_ASIN: y = m_asin(v); break; \
    case OP_ACOS: y = m_acos(v); break; \
    case OP_ATAN: y = m_atan(v); break; \
    case OP_SINH: y = m_sinh(v); break; \
    case OP_COSH: y = m_cosh(v); break; \
    case OP_ASINH: y = m_asinh(v); break; \
    case OP_ACOSH: y = m_acosh(v); break; \
    case OP_ATANH: y = m_atanh(v); break; \
    case OP_RECIPROCAL: y = 1.0 / v; break; \
    case OP_TANH: y = m_tanh(v); break; \
    case OP_SIGMOID: y = m_sigmoid(v); break; \
    case OP_RELU: y = op_negative_part(v, vec4(0.0)); break; \
    case OP_ROUND: y = roundEven(v); break; \
    case OP_TRUNC: y = trunc(v); break; \
    case OP_SIGN: y = op_signs(v); break; \
    case OP_ERF: y = m_erf(v); break; \
    case OP_SOFTPLUS: y = m_softplus(v); break; \
    case OP_MISH: y = m_mish(v); break; \
    case OP_SWISH: y = v * m_sigmoid(v); break; \
    case OP_GELU: y = 0.5 * v * (1.0 + m_erf(v * 0.7071067812)); break; \
    case OP_GELU_TANH: y = op_gelu_tanh(v); break; \
    case OP_LEAKY_RELU: y = op_negative_part(v, a * v); break; \
    case OP_ELU: y = op_negative_part(v, a * m_expm1(v)); break; \
    case OP_SELU: y = b * op_negative_part(v, a * m_expm1(v)); break; \
    case OP_CELU: y = op_negative_part(v, a * m_expm1(v / a)); break; \
    case OP_HARD_SIGMOID: y = op_clip(a * v + b, 0.0, 1.0); break; \
    case OP_HARD_SWISH: y = v * op_clip(a * v + b, 0.0, 1.0); break; \
    case OP_CLIP: y = op_clip(v, a, b); break; \
    case OP_THRESHOLD: y = if_(greaterThan(v, vec4(a)), vec4(1.0), vec4(0.0)); break; \
    case OP_SHRINK: y = op_shrink(v, a, b); break; \
    case OP_SOFTSIGN: y = v / (1.0 + abs(v)); break; \
    }

#define BINARY_OP(code, y, v, w) \
    switch (code) { \
    case BOP_ADD: y = v + w; break; \
    case BOP_SUB: y = v - w; break; \
    case BOP_MUL: y = v * w; break; \
    case BOP_DIV: y = v / w; break; \
    case BOP_MAX: y = if_(isnan(v), v, if_(greaterThan(v, w), v, w)); break; \
    case BOP_MIN: y = if_(isnan(v), v, if_(lessThan(v, w), v, w)); break; \
    case BOP_POW: y = m_pow(v, w); break; \
    case BOP_ATAN2: y = m_atan2(v, w); break; \
    case BOP_FMOD: y = m_fmod(v, w); break; \
    case BOP_REMAINDER: y = m_remainder(v, w); break; \
    case BOP_FLOOR_DIV: y = m_floordiv(v, w); break; \
    case BOP_LOG_ADD_EXP: y = m_logaddexp(v, w); break; \
    case BOP_PRELU: y = op_negative_part(v, v * w); break; \
    case BOP_MOD: y = op_sign_of(m_fmod(v, w), w); break; \
    case BOP_LARGER: y = if_(greaterThan(v, w), v, w); break; \
    case BOP_SMALLER: y = if_(lessThan(v, w), v, w); break; \
    }

#endif
