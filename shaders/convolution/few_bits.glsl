// Weights of 4 or 2 bits as convolution kernels read them. Include behind convolution/sums.glsl.
//
// A quad of weights is four ivec4s of output channels (of as many k), whose bytes would make one ivec4. The
// bytes of an ivec4 in memory hold those of SHARING quads, from the lowest bits on.

#ifndef VKNN_CONVOLUTION_FEW_BITS_GLSL
#define VKNN_CONVOLUTION_FEW_BITS_GLSL

layout(constant_id = 27) const int WEIGHT_BITS = 4;
#if QUANT == 0
layout(constant_id = 28) const float UNIT = 1.0;
#define OF_UNIT(v) (vec4(v) * UNIT)
#else
#define OF_UNIT(v) FACTOR(v)
#endif
const int SHARING = 8 / WEIGHT_BITS;
const int BITS_OF_ONE = 0x01010101 * ((1 << WEIGHT_BITS) - 1);

// Row `q` of quad number `part` of those in `held`, as a factor.
#define ROW_OF_FEW(held, part, q) \
    OF_UNIT(bitfieldExtract(held, 8 * (q) + (part) * WEIGHT_BITS, WEIGHT_BITS))
// Its bytes, for integer dots: codes without a sign, which CENTRE makes up for.
#define BYTES_OF_FEW(held, part) ((held) >> ((part) * WEIGHT_BITS) & BITS_OF_ONE)

#endif
