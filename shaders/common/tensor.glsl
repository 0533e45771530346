// Access to tensors. A shader never indexes a buffer itself: it declares INPUT4/INPUT1/OUTPUT4/OUTPUT1
// and reads and writes through LOAD4/LOAD1/STORE4/STORE1.
//
// Compile-time variants (see `#pragma vknn variants`):
//   ACCESS 0 storage buffer, 1 uniform texel buffer (texelFetch), 2 storage texel buffer (imageLoad)
//   ELEM   0 float, 1 int       what the tensors named without a suffix hold
//   HALF   0 floats lie in memory as float32, 1 as float16 (some kernels know further values). Shaders
//          compute in float32 in either case: what they load and store is converted.
//   BF16   1 with HALF: what would be float16 is bfloat16
// Tensors declared with suffix I (INPUT1I...) hold int and with F float, whatever ELEM is; those with
// S hold float32 whatever HALF is: scratch, statistics, tables, what float16 has no range for.
// Indices count vec4s for the 4 forms and scalars for the 1 forms. Stores always go to storage buffers.

#ifndef VKNN_TENSOR_GLSL
#define VKNN_TENSOR_GLSL

// textureBuffer and not samplerBuffer: with the latter a texel buffer is part of a sampled image, which
// SPIR-V 1.6 forbids, and of which Mesa 25.0 warns at any version.
#extension GL_EXT_samplerless_texture_functions : require

#ifndef ACCESS
#define ACCESS 0
#endif
#ifndef ELEM
#define ELEM 0
#endif
#ifndef HALF
#define HALF 0
#endif
#ifndef BF16
#define BF16 0
#endif

#include "common/half.glsl"

layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;

#if ELEM == 0
#define SCALAR float
#define VEC4 vec4
#else
#define SCALAR int
#define VEC4 ivec4
#endif

#if HALF == 0
#if ACCESS == 0
#define INPUT4F(b, name) layout(set = 0, binding = b, std430) readonly buffer name##_block { vec4 name[]; }
#define INPUT4I(b, name) layout(set = 0, binding = b, std430) readonly buffer name##_block { ivec4 name[]; }
#define INPUT1F(b, name) layout(set = 0, binding = b, std430) readonly buffer name##_block { float name[]; }
#define INPUT1I(b, name) layout(set = 0, binding = b, std430) readonly buffer name##_block { int name[]; }
#define LOAD4(name, i) name[i]
#define LOAD1(name, i) name[i]
#elif ACCESS == 1
#define INPUT4F(b, name) layout(set = 0, binding = b) uniform textureBuffer name
#define INPUT4I(b, name) layout(set = 0, binding = b) uniform itextureBuffer name
#define INPUT1F(b, name) layout(set = 0, binding = b) uniform textureBuffer name
#define INPUT1I(b, name) layout(set = 0, binding = b) uniform itextureBuffer name
#define LOAD4(name, i) texelFetch(name, int(i))
#define LOAD1(name, i) texelFetch(name, int(i)).x
#else
#define INPUT4F(b, name) layout(set = 0, binding = b, rgba32f) uniform readonly imageBuffer name
#define INPUT4I(b, name) layout(set = 0, binding = b, rgba32i) uniform readonly iimageBuffer name
#define INPUT1F(b, name) layout(set = 0, binding = b, r32f) uniform readonly imageBuffer name
#define INPUT1I(b, name) layout(set = 0, binding = b, r32i) uniform readonly iimageBuffer name
#define LOAD4(name, i) imageLoad(name, int(i))
#define LOAD1(name, i) imageLoad(name, int(i)).x
#endif

#define OUTPUT4F(b, name) layout(set = 0, binding = b, std430) writeonly buffer name##_block { vec4 name[]; }
#define OUTPUT4I(b, name) layout(set = 0, binding = b, std430) writeonly buffer name##_block { ivec4 name[]; }
#define OUTPUT1F(b, name) layout(set = 0, binding = b, std430) writeonly buffer name##_block { float name[]; }
#define OUTPUT1I(b, name) layout(set = 0, binding = b, std430) writeonly buffer name##_block { int name[]; }
// Read and written by the same dispatch; always a storage buffer.
#define INOUT1F(b, name) layout(set = 0, binding = b, std430) buffer name##_block { float name[]; }
#define INOUT1I(b, name) layout(set = 0, binding = b, std430) buffer name##_block { int name[]; }
#define INOUT4F(b, name) layout(set = 0, binding = b, std430) buffer name##_block { vec4 name[]; }
#define INOUT4I(b, name) layout(set = 0, binding = b, std430) buffer name##_block { ivec4 name[]; }
#define STORE4(name, i, v) name[i] = (v)
#define STORE1(name, i, v) name[i] = (v)

#define INPUT4S(b, name) INPUT4F(b, name)
#define INPUT1S(b, name) INPUT1F(b, name)
#define OUTPUT4S(b, name) OUTPUT4F(b, name)
#define OUTPUT1S(b, name) OUTPUT1F(b, name)
#define INOUT4S(b, name) INOUT4F(b, name)
#define INOUT1S(b, name) INOUT1F(b, name)
#endif

#if ELEM == 0
#define INPUT4(b, name) INPUT4F(b, name)
#define INPUT1(b, name) INPUT1F(b, name)
#define OUTPUT4(b, name) OUTPUT4F(b, name)
#define OUTPUT1(b, name) OUTPUT1F(b, name)
#define INOUT4(b, name) INOUT4F(b, name)
#else
#define INPUT4(b, name) INPUT4I(b, name)
#define INPUT1(b, name) INPUT1I(b, name)
#define OUTPUT4(b, name) OUTPUT4I(b, name)
#define OUTPUT1(b, name) OUTPUT1I(b, name)
#define INOUT4(b, name) INOUT4I(b, name)
#endif

// C4B: C4 with a word for each vec4 of int8 or uint8; declared by INPUT1I and OUTPUT1I.
layout(constant_id = 98) const int BYTES_UNSIGNED = 0;

ivec4 bytes_of(int word, int is_unsigned) {
    if (is_unsigned != 0) return ivec4(word, word >> 8, word >> 16, word >> 24) & 255;
    return ivec4(word << 24, word << 16, word << 8, word) >> 24;
}

int word_of(ivec4 v) {
    return (v.x & 255) | (v.y & 255) << 8 | (v.z & 255) << 16 | v.w << 24;
}

// C4 layout: [N, ceil(C/4), spatial..., 4]. The lanes behind the last channel stay zero in every tensor.
VEC4 zero_padding_lanes(VEC4 v, int channel4, int channels) {
    ivec4 kept = -ivec4(lessThan(ivec4(0, 1, 2, 3) + channel4 * 4, ivec4(channels)));
#if ELEM == 0
    return intBitsToFloat(floatBitsToInt(v) & kept);
#else
    return v & kept;
#endif
}

#endif
