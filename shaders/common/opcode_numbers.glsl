// Opcodes of the elementwise operators, written by tools/opcodes.py from
// src/vknn/lowering/kit/opcodes.py.

#ifndef VKNN_OPCODE_NUMBERS_GLSL
#define VKNN_OPCODE_NUMBERS_GLSL

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

#endif
