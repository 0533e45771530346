// The epilogue of a kernel: up to six steps given by specialization constants, so that the
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

// Written out with the constants themselves, not as a function of them: so the runtime can cut the
// branches that a pipeline does not take before the driver sees them (vknn.runtime.spirv.specialize).
#if EPILOGUE_OPERANDS > 0
#define EPILOGUE_OPERAND_0(m) \
    if ((m & 15) == 2) q = EPILOGUE_LOAD(ep_operand_0, (m & 16) != 0 ? channel : index);
#else
#define EPILOGUE_OPERAND_0(m)
#endif
#if EPILOGUE_OPERANDS > 1
#define EPILOGUE_OPERAND_1(m) \
    if ((m & 15) == 3) q = EPILOGUE_LOAD(ep_operand_1, (m & 16) != 0 ? channel : index);
#else
#define EPILOGUE_OPERAND_1(m)
#endif
#define EPILOGUE_STEP(n) \
    if (ep_code_##n != 0) { \
        if ((ep_mode_##n & 15) == 0) { \
            UNARY_OP(ep_code_##n, v, v, ep_a_##n, ep_b_##n) \
        } else { \
            q = vec4(ep_a_##n); \
            EPILOGUE_OPERAND_0(ep_mode_##n) \
            EPILOGUE_OPERAND_1(ep_mode_##n) \
            p = v; \
            if ((ep_mode_##n & 32) != 0) { \
                p = q; \
                q = v; \
            } \
            BINARY_OP(ep_code_##n, v, p, q) \
        } \
    }

vec4 epilogue4(vec4 v, int index, int channel) {
    vec4 p, q;
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
