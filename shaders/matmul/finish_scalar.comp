#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"

// c = epilogue(x): for a product whose bias has the binding that the epilogue's operand needs.

INPUT1S(0, x);
OUTPUT1F(1, c);
#define EPILOGUE_BINDING 2
#define EPILOGUE_SCALAR
#include "common/epilogue.glsl"

layout(push_constant) uniform P {
    int count;
    int n;
} p;

void main() {
    int at = linear_lane();
    if (at < p.count) STORE1(c, at, epilogue1(LOAD1(x, at), at, at % p.n));
}
