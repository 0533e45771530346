// Element types of convolution kernels, by ELEM, HALF_SUMS, DOTS and QUANT: of the factors, the sums and the
// results. Include common/tensor.glsl first. Bindings: 0 x, 1 w, 2 y; binding 3 is declared here.
//
// INPUT4W declares the weights. A vec4 of x may be held as it lies in memory: HOLD_X loads a HELD_X,
// TAKE_HELD makes an INPUT_FACTOR of it. TAKE converts a loaded vec4 of x to an INPUT_FACTOR and needs ZERO_POINT
// before it; OUTSIDE is the INPUT_FACTOR of padding. BIAS is the vec4 that sums begin with. RESULT is
// the result of sum `k` of the array, for place `at` of y, vec4 `m` of the `m4` of output channels; it
// needs READ_SETTING before it. With QUANT and RESIDUAL it is the sum with `other`, another quantized tensor
// of the shape of y (binding 4).
//
// FEW: weights are integers of WEIGHT_BITS bits (convolution/few_bits.glsl), and with QUANT 0 multiplied by UNIT.

#ifndef VKNN_CONVOLUTION_SUMS_GLSL
#define VKNN_CONVOLUTION_SUMS_GLSL

#ifndef QUANT
#define QUANT 0
#endif

#ifndef FEW
#define FEW 0
#endif

// BYTES: y is in C4B; 1: x as well. INPUT_X and OUTPUT_Y declare them.
#ifndef BYTES
#define BYTES 0
#endif
#if BYTES == 1
#define INPUT_X(b, name) INPUT1I(b, name)
#define HELD_X int
#define HOLD_X(name, i) LOAD1(name, i)
#define OF_HELD(v) X_OF(v)
#else
#define INPUT_X(b, name) INPUT4(b, name)
#define HELD_X VEC4
#define HOLD_X(name, i) LOAD4(name, i)
#define OF_HELD(v) v
#endif
#define LOAD_X(name, i) OF_HELD(HOLD_X(name, i))
#define TAKE_HELD(v) TAKE(OF_HELD(v))
#if BYTES
#define OUTPUT_Y(b, name) OUTPUT1I(b, name)
#define STORE_Y(name, i, v) STORE1(name, i, word_of(v))
#else
#define OUTPUT_Y(b, name) OUTPUT4(b, name)
#define STORE_Y(name, i, v) STORE4(name, i, v)
#endif

#include "convolution/scale.glsl"
#if QUANT
#define SETTING_BINDING 3
#include "quantized/sums.glsl"
#define INPUT_FACTOR FACTOR
#define AS_FACTOR(v) v
#define BIAS(i) ivec4(0)
#define MOST_PARTIAL_STEPS (QUANT == 3 ? 0 : JOIN)
#define READ_SETTING(m, m4) Requantizer requantizer_ = requantizer(min(m, (m4) - 1), m4, head_);
#if RESIDUAL
#define RESULT(sums, k, at, m) \
    added(requantized(TOTAL(sums, k), HIGH(k), requantizer_), LOAD_OTHER(at), requantizer_)
#else
#define RESULT(sums, k, at, m) requantized(TOTAL(sums, k), HIGH(k), requantizer_)
#endif
#else
#include "matmul/half_sums.glsl"
#ifdef DOTS
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "matmul/float_dots.glsl"
#endif
#define MOVE_SUM(sums, k) sums[k] = sums[k + 1];
#define ADD_CENTRED(sums, partial, rows, columns)
#if FEW
#define INPUT4W(b, name) INPUT4I(b, name)
#else
#define INPUT4W(b, name) INPUT4(b, name)
#endif
#define WEIGHT4 VEC4
#define INPUT_FACTOR VEC4
#define TAKE(v) (v)
#define OUTSIDE INPUT_FACTOR(0)
#define ZERO_POINT
#ifdef HALF_SUMS
#define MOST_PARTIAL_STEPS 4
#else
#define MOST_PARTIAL_STEPS 0
#endif
#define READ_SETTING(m, m4)
#if FEW
#define WEIGHT_ROWS 1
#define BIAS(i) VEC4(0)
#else
#define WEIGHT_ROWS 4
#define BIAS(i) LOAD4(w, i)
#endif
#if ELEM == 0
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#define RESULT(sums, k, at, m) END(sums[k], at, m)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#define RESULT(sums, k, at, m) sums[k]
#endif
#endif

#if FEW
#include "convolution/few_bits.glsl"
#endif

// Moves each sum to the place before it.
#define NEXT_SUMS(sums, count) \
    [[unroll]] for (int i_ = 0; i_ + 1 < count; i_++) { MOVE_SUM(sums, i_) }

#endif
