// The elementwise operators by number; src/vknn/lowering/kit/epilogue.py has the same table (a test
// compares them).
//
// UNARY_OP(code, y, v, a, b)    y = op(v); a, b: the op's attributes. y and v may be one variable.
// BINARY_OP(code, y, v, w)      y = op(v, w)
// Statements; y keeps its value where the code is 0. `code` must be the name of a specialization
// constant itself: then its dead branches are cut before a driver sees them. Not-a-number goes
// through every op as in NumPy.

#ifndef VKNN_OPCODES_GLSL
#define VKNN_OPCODES_GLSL

#include "common/mathf.glsl"

#define OP_ABS 1
#define OP_NEG 2
#define OP_FLOOR 3
#define OP_CEIL 4
#define OP_SQUARE 5
#define OP_SQRT 6
#define OP_RSQRT 7
#define OP_EXP 8
#define OP_LOG 9
#define OP_LOG10 10
#define OP_LOG1P 11
#define OP_EXPM1 12
#define OP_SIN 13
#define OP_COS 14
#define OP_TAN 15
#define OP_ASIN 16
#define OP_ACOS 17
#define OP_ATAN 18
#define OP_SINH 19
#define OP_COSH 20
#define OP_ASINH 21
#define OP_ACOSH 22
#define OP_ATANH 23
#define OP_RECIPROCAL 24
#define OP_TANH 25
#define OP_SIGMOID 26
#define OP_RELU 27
#define OP_ROUND 28
#define OP_TRUNC 29
#define OP_SIGN 30
#define OP_ERF 31
#define OP_SOFTPLUS 32
#define OP_MISH 33
#define OP_SWISH 34
#define OP_GELU 35
#define OP_GELU_TANH 36
#define OP_LEAKY_RELU 37
#define OP_ELU 38
#define OP_SELU 39
#define OP_CELU 40
#define OP_HARD_SIGMOID 41
#define OP_HARD_SWISH 42
#define OP_CLIP 43
#define OP_THRESHOLD 44
#define OP_SHRINK 45
#define OP_SOFTSIGN 46

#define BOP_ADD 1
#define BOP_SUB 2
#define BOP_MUL 3
#define BOP_DIV 4
#define BOP_MAX 5
#define BOP_MIN 6
#define BOP_POW 7
#define BOP_ATAN2 8
#define BOP_FMOD 9
#define BOP_REMAINDER 10
#define BOP_FLOOR_DIV 11
#define BOP_LOG_ADD_EXP 12
#define BOP_PRELU 13
#define BOP_MOD 14
#define BOP_LARGER 15
#define BOP_SMALLER 16

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
