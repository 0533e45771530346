// The epilogue of a kernel of two layers (common/epilogue.glsl, which it is included behind): its first
// three steps are the first layer's, g, the others the second one's, f.

#ifndef VKNN_CHAIN_STEPS_GLSL
#define VKNN_CHAIN_STEPS_GLSL

vec4 g(vec4 v) {
    const int index = 0, channel = 0;  // of operands, which g has none of
    vec4 p, q;
    EPILOGUE_STEP(0)
    EPILOGUE_STEP(1)
    EPILOGUE_STEP(2)
    return v;
}

vec4 f(vec4 v, int index, int channel) {
    vec4 p, q;
    EPILOGUE_STEP(3)
    EPILOGUE_STEP(4)
    EPILOGUE_STEP(5)
    return v;
}

#endif
