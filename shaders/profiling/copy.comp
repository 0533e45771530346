#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"

// y = x, ITEMS vec4s a lane, neighbouring lanes on neighbouring vec4s. The dispatch has exactly as many
// lanes as are needed: a check of the index would cost more than the copy on some devices.
layout(constant_id = 10) const int ITEMS = 1;
INPUT4(0, x);
OUTPUT4(1, y);

void main() {
    int lanes = int(gl_WorkGroupSize.x);
    int first = linear_group() * lanes * ITEMS + int(gl_LocalInvocationID.x);
    for (int item = 0; item < ITEMS; item++) {
        int i = first + item * lanes;
        STORE4(y, i, LOAD4(x, i));
    }
}
