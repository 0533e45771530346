#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"

// As little as a dispatch can do: its cost is the cost of any dispatch.
OUTPUT1(0, y);

void main() {
    if (gl_GlobalInvocationID.x == 0) STORE1(y, 0, 1.0);
}
