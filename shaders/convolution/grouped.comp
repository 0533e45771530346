#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1 SHUFFLE=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 SHUFFLE=0,1 HALF=1
#pragma vknn variants ACCESS=0,1,2 ELEM=1 SHUFFLE=0,1 QUANT=1
#pragma vknn variants ACCESS=0,1,2 ELEM=1 SHUFFLE=0 QUANT=2
#pragma vknn variants ACCESS=0,1,2 ELEM=0 SHUFFLE=0 FEW=1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 SHUFFLE=0 FEW=1 HALF=1
#pragma vknn variants ACCESS=0,1,2 ELEM=1 SHUFFLE=0 QUANT=2,4 FEW=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#if SHUFFLE
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
// Convolution in register tiles, where a vec4 of channels may belong to several groups.
#define TRANSPOSED 0
#include "convolution/span.glsl"
