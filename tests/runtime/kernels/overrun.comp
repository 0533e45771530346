#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"

// Writes p.count floats, however many y holds.
OUTPUT1(0, y);
layout(push_constant) uniform P { int count; } p;

void main() {
    for (int i = 0; i < p.count; i++) STORE1(y, i, 1.0);
}
