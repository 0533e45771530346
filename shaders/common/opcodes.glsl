// The elementwise operators by number; src/vknn/lowering/epilogue.py has the same table (a test
// compares them). Codes come from specialization constants, so drivers fold the switches away.
//
// vec4 unary_op(int code, vec4 v, float a, float b)    a, b: the op's attributes
// vec4 binary_op(int code, vec4 v, vec4 w)
// Code 0 gives v. Not-a-number goes through every op as in NumPy.

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

vec4 op_signs(vec4 v) {
    vec4 y = if_(greaterThan(v, vec4(0.0)), vec4(1.0), v);
    return if_(lessThan(v, vec4(0.0)), vec4(-1.0), y);
}

vec4 unary_op(int code, vec4 v, float a, float b) {
    switch (code) {
    case OP_ABS: return abs(v);
    case OP_NEG: return -v;
    case OP_FLOOR: return floor(v);
    case OP_CEIL: return ceil(v);
    case OP_SQUARE: return v * v;
    case OP_SQRT: return sqrt(v);
    case OP_RSQRT: return 1.0 / sqrt(v);
    case OP_EXP: return m_exp(v);
    case OP_LOG: return m_log(v);
    case OP_LOG10: return m_log(v) * 0.4342944819;
    case OP_LOG1P: return m_log1p(v);
    case OP_EXPM1: return m_expm1(v);
    case OP_SIN: return m_sin_shifted(v, 0);
    case OP_COS: return m_sin_shifted(v, 1);
    case OP_TAN: return m_tan(v);
    case OP_ASIN: return m_asin(v);
    case OP_ACOS: return m_acos(v);
    case OP_ATAN: return m_atan(v);
    case OP_SINH: return m_sinh(v);
    case OP_COSH: return m_cosh(v);
    case OP_ASINH: return m_asinh(v);
    case OP_ACOSH: return m_acosh(v);
    case OP_ATANH: return m_atanh(v);
    case OP_RECIPROCAL: return 1.0 / v;
    case OP_TANH: return m_tanh(v);
    case OP_SIGMOID: return m_sigmoid(v);
    case OP_RELU: return op_negative_part(v, vec4(0.0));
    case OP_ROUND: return roundEven(v);
    case OP_TRUNC: return trunc(v);
    case OP_SIGN: return op_signs(v);
    case OP_ERF: return m_erf(v);
    case OP_SOFTPLUS: return m_softplus(v);
    case OP_MISH: return m_mish(v);
    case OP_SWISH: return v * m_sigmoid(v);
    case OP_GELU: return 0.5 * v * (1.0 + m_erf(v * 0.7071067812));
    case OP_GELU_TANH: return op_gelu_tanh(v);
    case OP_LEAKY_RELU: return op_negative_part(v, a * v);
    case OP_ELU: return op_negative_part(v, a * m_expm1(v));
    case OP_SELU: return b * op_negative_part(v, a * m_expm1(v));
    case OP_CELU: return op_negative_part(v, a * m_expm1(v / a));
    case OP_HARD_SIGMOID: return op_clip(a * v + b, 0.0, 1.0);
    case OP_HARD_SWISH: return v * op_clip(a * v + b, 0.0, 1.0);
    case OP_CLIP: return op_clip(v, a, b);
    case OP_THRESHOLD: return if_(greaterThan(v, vec4(a)), vec4(1.0), vec4(0.0));
    case OP_SHRINK: return op_shrink(v, a, b);
    case OP_SOFTSIGN: return v / (1.0 + abs(v));
    }
    return v;
}

vec4 binary_op(int code, vec4 v, vec4 w) {
    switch (code) {
    case BOP_ADD: return v + w;
    case BOP_SUB: return v - w;
    case BOP_MUL: return v * w;
    case BOP_DIV: return v / w;
    case BOP_MAX: return if_(isnan(v), v, if_(greaterThan(v, w), v, w));
    case BOP_MIN: return if_(isnan(v), v, if_(lessThan(v, w), v, w));
    case BOP_POW: return m_pow(v, w);
    case BOP_ATAN2: return m_atan2(v, w);
    case BOP_FMOD: return m_fmod(v, w);
    case BOP_REMAINDER: return m_remainder(v, w);
    case BOP_FLOOR_DIV: return m_floordiv(v, w);
    case BOP_LOG_ADD_EXP: return m_logaddexp(v, w);
    case BOP_PRELU: return op_negative_part(v, v * w);
    }
    return v;
}

#endif
