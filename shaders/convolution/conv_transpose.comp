#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0 SHUFFLE=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 SHUFFLE=0,1 HALF=1
#pragma vknn variants ACCESS=0,1,2 ELEM=1 SHUFFLE=0,1 QUANT=1
#pragma vknn variants ACCESS=0,1,2 ELEM=1 SHUFFLE=0 QUANT=2
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#if SHUFFLE
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
// Transposed convolution in register tiles.
#define TRANSPOSED 1
#include "convolution/span.glsl"
