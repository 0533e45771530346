// The declarations and accesses of common/tensor.glsl where floats lie in memory as float16 (HALF) or
// bfloat16 (BF16, by its bits: common/bfloat16.glsl).
// Each tensor gets a function of its own that loads or stores it, for a macro that is given a name
// cannot know what the name's tensor holds. Behind the function stands its declaration once more,
// to take the semicolon.
//
// Scalars of 16 bits are read by texelFetch in both texel modes: a uniform texel buffer of R16_SFLOAT
// or R16_UINT is there on every device, a storage texel buffer is not.

#if HALF > 0

#extension GL_EXT_shader_16bit_storage : require

#define BUFFER_IN(b, name, type, wide) \
    layout(set = 0, binding = b, std430) readonly buffer name##_block { type name[]; }; \
    wide name##_load(int place_) { return wide(name[place_]); } \
    wide name##_load(int place_)
#define TEXEL_IN(b, name, texture, wide) \
    layout(set = 0, binding = b) uniform texture name; \
    wide name##_load(int place_) { return wide(texelFetch(name, place_)); } \
    wide name##_load(int place_)
#define IMAGE_IN(b, name, format, image, wide) \
    layout(set = 0, binding = b, format) uniform readonly image name; \
    wide name##_load(int place_) { return wide(imageLoad(name, place_)); } \
    wide name##_load(int place_)
#define BUFFER_OUT(b, name, type, wide) \
    layout(set = 0, binding = b, std430) writeonly buffer name##_block { type name[]; }; \
    void name##_store(int place_, wide value_) { name[place_] = type(value_); } \
    void name##_store(int place_, wide value_)
#define BUFFER_INOUT(b, name, type) \
    layout(set = 0, binding = b, std430) buffer name##_block { type name[]; }; \
    void name##_store(int place_, type value_) { name[place_] = value_; } \
    void name##_store(int place_, type value_)

#if BF16
#include "common/bfloat16.glsl"

#define BITS_IN(b, name, type, word, wide) \
    layout(set = 0, binding = b, std430) readonly buffer name##_block { type name[]; }; \
    wide name##_load(int place_) { return from_bfloat16(word(name[place_])); } \
    wide name##_load(int place_)
#define BITS_TEXEL_IN(b, name, lanes, wide) \
    layout(set = 0, binding = b) uniform utextureBuffer name; \
    wide name##_load(int place_) { return from_bfloat16(texelFetch(name, place_).lanes); } \
    wide name##_load(int place_)
#define BITS_IMAGE_IN(b, name) \
    layout(set = 0, binding = b, rgba16ui) uniform readonly uimageBuffer name; \
    vec4 name##_load(int place_) { return from_bfloat16(imageLoad(name, place_)); } \
    vec4 name##_load(int place_)
#define BITS_OUT(b, name, type, wide) \
    layout(set = 0, binding = b, std430) writeonly buffer name##_block { type name[]; }; \
    void name##_store(int place_, wide value_) { name[place_] = type(to_bfloat16(value_)); } \
    void name##_store(int place_, wide value_)

#if ACCESS == 0
#define INPUT4F(b, name) BITS_IN(b, name, uvec2, uvec2, vec4)
#define INPUT1F(b, name) BITS_IN(b, name, uint16_t, uint, float)
#elif ACCESS == 1
#define INPUT4F(b, name) BITS_TEXEL_IN(b, name, xyzw, vec4)
#define INPUT1F(b, name) BITS_TEXEL_IN(b, name, x, float)
#else
#define INPUT4F(b, name) BITS_IMAGE_IN(b, name)
#define INPUT1F(b, name) BITS_TEXEL_IN(b, name, x, float)
#endif
#define OUTPUT4F(b, name) BITS_OUT(b, name, uvec2, vec4)
#define OUTPUT1F(b, name) BITS_OUT(b, name, uint16_t, float)

#else

#if ACCESS == 0
#define INPUT4F(b, name) BUFFER_IN(b, name, f16vec4, vec4)
#define INPUT1F(b, name) BUFFER_IN(b, name, float16_t, float)
#elif ACCESS == 1
#define INPUT4F(b, name) TEXEL_IN(b, name, textureBuffer, vec4)
#define INPUT1F(b, name) TEXEL_IN(b, name, textureBuffer, float)
#else
#define INPUT4F(b, name) IMAGE_IN(b, name, rgba16f, imageBuffer, vec4)
#define INPUT1F(b, name) TEXEL_IN(b, name, textureBuffer, float)
#endif
#define OUTPUT4F(b, name) BUFFER_OUT(b, name, f16vec4, vec4)
#define OUTPUT1F(b, name) BUFFER_OUT(b, name, float16_t, float)

#endif

#if ACCESS == 0
#define INPUT4S(b, name) BUFFER_IN(b, name, vec4, vec4)
#define INPUT1S(b, name) BUFFER_IN(b, name, float, float)
#define INPUT4I(b, name) BUFFER_IN(b, name, ivec4, ivec4)
#define INPUT1I(b, name) BUFFER_IN(b, name, int, int)
#elif ACCESS == 1
#define INPUT4S(b, name) TEXEL_IN(b, name, textureBuffer, vec4)
#define INPUT1S(b, name) TEXEL_IN(b, name, textureBuffer, float)
#define INPUT4I(b, name) TEXEL_IN(b, name, itextureBuffer, ivec4)
#define INPUT1I(b, name) TEXEL_IN(b, name, itextureBuffer, int)
#else
#define INPUT4S(b, name) IMAGE_IN(b, name, rgba32f, imageBuffer, vec4)
#define INPUT1S(b, name) IMAGE_IN(b, name, r32f, imageBuffer, float)
#define INPUT4I(b, name) IMAGE_IN(b, name, rgba32i, iimageBuffer, ivec4)
#define INPUT1I(b, name) IMAGE_IN(b, name, r32i, iimageBuffer, int)
#endif

#define OUTPUT4S(b, name) BUFFER_OUT(b, name, vec4, vec4)
#define OUTPUT1S(b, name) BUFFER_OUT(b, name, float, float)
#define OUTPUT4I(b, name) BUFFER_OUT(b, name, ivec4, ivec4)
#define OUTPUT1I(b, name) BUFFER_OUT(b, name, int, int)
// Sums that several dispatches add to stay in 32 bits: there is no INOUT of 16 bits.
#define INOUT4S(b, name) BUFFER_INOUT(b, name, vec4)
#define INOUT1S(b, name) BUFFER_INOUT(b, name, float)
#define INOUT4I(b, name) BUFFER_INOUT(b, name, ivec4)
#define INOUT1I(b, name) BUFFER_INOUT(b, name, int)

#define LOAD4(name, i) name##_load(int(i))
#define LOAD1(name, i) name##_load(int(i))
#define STORE4(name, i, v) name##_store(int(i), v)
#define STORE1(name, i, v) name##_store(int(i), v)

#endif
