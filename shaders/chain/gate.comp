#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// The gate of a squeeze-and-excitation block: y = f(B g(A mean(x) + a) + b), for each image. A
// workgroup computes the whole hidden layer and `columns` vec4s of y; its lanes share the columns of
// a layer, and where these are fewer its rows as well.
//
// x [N, c4, pixels] and y [N, m4] in C4. w: A, a, B and b, A and B in panels as chain/layers.glsl has them.
#include "common/tensor.glsl"
#include "common/grid.glsl"

INPUT4(0, x);
INPUT4F(1, w);
OUTPUT4(2, y);
#define EPILOGUE_BINDING 3
#define EPILOGUE_OPERANDS 0
#include "common/epilogue.glsl"
#include "chain/steps.glsl"

layout(constant_id = 10) const int LANES = 64;       // local_size_x
layout(constant_id = 11) const int INPUTS = 64;      // room for c4 * PIXEL_LANES vec4s
layout(constant_id = 12) const int HIDDEN = 64;      // room for hidden4 vec4s
layout(constant_id = 13) const int PIXEL_LANES = 1;  // lanes that share the pixels of a vec4
layout(constant_id = 14) const int STEPS = 2;        // vec4s that a lane multiplies in a round
layout(constant_id = 15) const int ROW_A = 1;        // columns of a panel of A, and of B
layout(constant_id = 16) const int ROW_B = 1;

layout(push_constant) uniform P {
    int c4, hidden4, hidden;  // vec4s of channels; vec4s and elements of the hidden layer
    int m4, channels;         // of y
    int pixels, columns;
    int a, b, b_bias;  // where a, B and b begin
} p;

shared vec4 vectors[INPUTS + HIDDEN];
shared vec4 partial[LANES];

#include "chain/layers.glsl"

void main() {
    int lane = int(gl_LocalInvocationID.x);
    int image = int(gl_WorkGroupID.y);
    take_means(image, lane, 0, p.c4);
    pad_vector(0, p.c4, lane);
    pad_vector(INPUTS, p.hidden4, lane);
    barrier();

    int width = min(p.hidden4, LANES);
    int parts = min(LANES / width, rounds_of(p.c4));
    for (int base = 0; base < p.hidden4; base += width) {
        SUM_COLUMNS(0, p.c4, ROW_A, 0, base, p.hidden4)
        if (lane < width && column < p.hidden4) {
            vec4 v = g(partial[lane] + LOAD4(w, p.a + column));
            vectors[INPUTS + column] = zero_padding_lanes(v, column, p.hidden);
        }
        barrier();
    }

    int first = int(gl_WorkGroupID.x) * p.columns;
    int end = min(first + p.columns, p.m4);
    width = min(p.columns, LANES);
    parts = min(LANES / width, rounds_of(p.hidden4));
    for (int base = first; base < end; base += width) {
        SUM_COLUMNS(INPUTS, p.hidden4, ROW_B, p.b, base, end)
        if (lane < width && column < end) {
            vec4 v = f(partial[lane] + LOAD4(w, p.b_bias + column), 0, 0);
            STORE4(y, image * p.m4 + column, zero_padding_lanes(v, column, p.channels));
        }
        barrier();
    }
}
