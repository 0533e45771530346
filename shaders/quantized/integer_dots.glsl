// Dot products of the four bytes of two integers, in int32 (VK_KHR_shader_integer_dot_product).

#extension GL_EXT_spirv_intrinsics : require
#ifndef VKNN_INTEGER_DOTS_GLSL
#define VKNN_INTEGER_DOTS_GLSL

spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int signed_dot(int a, int b, spirv_literal int four_bytes);

spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4452)
int mixed_dot(int signed_, int unsigned_, spirv_literal int four_bytes);

// 1: data are unsigned bytes, for devices that multiply these by signed ones, but not signed by signed.
layout(constant_id = 25) const int MIXED = 0;

// The products of four bytes of data with four signed ones.
int dot_of_data(int data, int b) { return MIXED != 0 ? mixed_dot(b, data, 0) : signed_dot(data, b, 0); }

const int ONES = 0x01010101;

#endif
