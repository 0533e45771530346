// SCALED: a convolution of one tap multiplies each vec4 of x by a vector of channels of its image, `scale`
// [N, c4] (binding 3), takes the steps g of it and goes on with that (chain/steps.glsl, whose f is the end's).
// Include in place of the epilogue. What DOTS, HALF_SUMS and COOPERATIVE multiply is float16: there
// products are rounded to it before any step, as they are where a tensor holds them.
//
// HELD_SCALES(name, count, place): `count` vec4s of the scale from `place` on. scaled(v, s): g(v * s).

#ifndef VKNN_CONVOLUTION_SCALE_GLSL
#define VKNN_CONVOLUTION_SCALE_GLSL

#ifdef SCALED
#if defined(DOTS) || defined(HALF_SUMS) || defined(COOPERATIVE)
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define SCALE_FACTOR f16vec4
#else
#define SCALE_FACTOR vec4
#endif
INPUT4(3, scale);
#define EPILOGUE_BINDING 4
#include "common/epilogue.glsl"
#include "chain/steps.glsl"
#define HELD_SCALES(name, count, place) \
    vec4 name[count]; \
    [[unroll]] for (int s_ = 0; s_ < (count); s_++) name[s_] = LOAD4(scale, (place) + s_);
vec4 scaled(vec4 v, vec4 s) { return g(vec4(SCALE_FACTOR(v) * SCALE_FACTOR(s))); }
#define END(v, index, channel) f(v, index, channel)
#else
#if ELEM == 0 && !QUANT
#ifndef EPILOGUE_BINDING
#define EPILOGUE_BINDING 3
#endif
#include "common/epilogue.glsl"
#endif
#define HELD_SCALES(name, count, place)
#define scaled(v, s) (v)
#define END(v, index, channel) epilogue4(v, index, channel)
#endif

#endif
