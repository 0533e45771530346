// The elementwise tail of a kernel: up to six steps given by specialization constants, so that the
// driver folds everything that a pipeline does not use.
//
// Before the include: #define EPILOGUE_BINDING n       first binding of the operands
//                     #define EPILOGUE_OPERANDS 0|1|2  how many operand bindings (default 1)
//                     #define EPILOGUE_SCALAR          operands are read one scalar at a time
// vec4  epilogue4(vec4 v, int index, int channel)      index and channel count vec4s
// float epilogue1(float v, int index, int channel)     (EPILOGUE_SCALAR) index and channel count scalars
// `index` is the place in the output, `channel` the place along the op's channel axis.
//
// A step's constants are code, a, b, mode. mode & 15: 0 unary(v; a, b); 1 binary(v, a);
// 2 binary(v, first operand); 3 binary(v, second operand). mode & 16: the operand is a vector
// along the channel axis. mode & 32: v is the second argument of the binary.

#ifndef VKNN_EPILOGUE_GLSL
#define VKNN_EPILOGUE_GLSL

#include "common/opcodes.glsl"

#ifndef EPILOGUE_OPERANDS
#define EPILOGUE_OPERANDS 1
#endif

#define EPILOGUE_STEP_CONSTANTS(n, id) \
    layout(constant_id = id) const int ep_code_##n = 0; \
    layout(constant_id = id + 1) const float ep_a_##n = 0.0; \
    layout(constant_id = id + 2) const float ep_b_##n = 0.0; \
    layout(constant_id = id + 3) const int ep_mode_##n = 0;
EPILOGUE_STEP_CONSTANTS(0, 100)
EPILOGUE_STEP_CONSTANTS(1, 104)
EPILOGUE_STEP_CONSTANTS(2, 108)
EPILOGUE_STEP_CONSTANTS(3, 112)
EPILOGUE_STEP_CONSTANTS(4, 116)
EPILOGUE_STEP_CONSTANTS(5, 120)

#ifdef EPILOGUE_SCALAR
#define EPILOGUE_INPUT(b, name) INPUT1F(b, name)
#define EPILOGUE_LOAD(name, i) vec4(LOAD1(name, i))
#else
#define EPILOGUE_INPUT(b, name) INPUT4F(b, name)
#define EPILOGUE_LOAD(name, i) LOAD4(name, i)
#endif

#if EPILOGUE_OPERANDS > 0
EPILOGUE_INPUT(EPILOGUE_BINDING, ep_operand_0);
#endif
#if EPILOGUE_OPERANDS > 1
EPILOGUE_INPUT(EPILOGUE_BINDING + 1, ep_operand_1);
#endif

vec4 ep_step(int code, float a, float b, int mode, vec4 v, int index, int channel) {
    if (code == 0) return v;
    int source = mode & 15;
    if (source == 0) return unary_op(code, v, a, b);
    vec4 w = vec4(a);
    int at = (mode & 16) != 0 ? channel : index;
#if EPILOGUE_OPERANDS > 0
    if (source == 2) w = EPILOGUE_LOAD(ep_operand_0, at);
#endif
#if EPILOGUE_OPERANDS > 1
    if (source == 3) w = EPILOGUE_LOAD(ep_operand_1, at);
#endif
    return (mode & 32) != 0 ? binary_op(code, w, v) : binary_op(code, v, w);
}

#define EPILOGUE_STEP(n) v = ep_step(ep_code_##n, ep_a_##n, ep_b_##n, ep_mode_##n, v, index, channel);

vec4 epilogue4(vec4 v, int index, int channel) {
    EPILOGUE_STEP(0)
    EPILOGUE_STEP(1)
    EPILOGUE_STEP(2)
    EPILOGUE_STEP(3)
    EPILOGUE_STEP(4)
    EPILOGUE_STEP(5)
    return v;
}

#ifdef EPILOGUE_SCALAR
float epilogue1(float v, int index, int channel) { return epilogue4(vec4(v), index, channel).x; }
#endif

#endif
