#version 450
#pragma vknn variants ACCESS=0,1,2 SOFTMAX=0,1
#pragma vknn variants ACCESS=0,1,2 SOFTMAX=0,1 HALF=1
#pragma vknn variants ACCESS=0,1,2 SOFTMAX=1 WITHOUT_LAYER=1
#pragma vknn variants ACCESS=0,1,2 SOFTMAX=1 WITHOUT_LAYER=1 HALF=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// The end of a classifier: y = softmax(f(B g(mean(x)) + b)) for each image; the mean or the softmax may
// be missing. A workgroup computes COLUMNS vec4s of the layer, and of the mean all that it multiplies.
// SOFTMAX: the workgroup of an image that is done last takes the softmax of what all of them wrote
// (common/last_workgroup.glsl).
// WITHOUT_LAYER: the softmax of f(mean(x)); a workgroup computes COLUMNS vec4s of the means. m4 and
// channels are those of x.
//
// x [N, c4, pixels] and y [N, m4] in C4. w: B, a panel for each workgroup (chain/layers.glsl), then b [m4]
// from place `bias` on. done: the bits of the layer's results [N, m4, 4], then of each image the number of
// workgroups that are done, 0 at first.
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "common/mathf.glsl"

INPUT4(0, x);
#if WITHOUT_LAYER
OUTPUT4(1, y);
coherent INOUT1I(2, done);
#define EPILOGUE_BINDING 3
#else
INPUT4F(1, w);
OUTPUT4(2, y);
#if SOFTMAX
coherent INOUT1I(3, done);
#endif
#define EPILOGUE_BINDING 4
#endif
#define EPILOGUE_OPERANDS 0
#include "common/epilogue.glsl"
#include "chain/steps.glsl"

layout(constant_id = 10) const int LANES = 64;       // local_size_x
layout(constant_id = 11) const int INPUTS = 64;      // room for c4 * PIXEL_LANES vec4s
layout(constant_id = 12) const int PIXEL_LANES = 1;  // lanes that share the pixels of a vec4
layout(constant_id = 13) const int LOGARITHM = 0;    // of the softmax
layout(constant_id = 14) const int ACTIVATES = 0;    // means: g has steps
layout(constant_id = 15) const int COLUMNS = 1;      // vec4s of a workgroup
layout(constant_id = 16) const int STEPS = 2;        // vec4s of a mean that a lane multiplies in a round

layout(push_constant) uniform P {
    int c4, channels_in;  // of x, the first in vec4s
    int m4, channels;     // of y
    int pixels, bias;
} p;

shared vec4 vectors[INPUTS];
#if !WITHOUT_LAYER
shared vec4 partial[LANES];
#endif

#include "chain/layers.glsl"

#if SOFTMAX
const int ROWS = 1;
#include "normalization/row_reduce.glsl"

#include "common/last_workgroup.glsl"

// True in all lanes of the workgroup of an image that is the last to come here.
bool is_last(int image, int lane) {
    int images = int(gl_NumWorkGroups.y);
    return is_last_workgroup(4 * images * p.m4 + image, int(gl_NumWorkGroups.x), lane);
}

void keep(int at, vec4 v) {
    ivec4 bits = floatBitsToInt(v);
    [[unroll]] for (int q = 0; q < 4; q++) done[4 * at + q] = bits[q];
}

bvec4 are_channels(int column) { return lessThan(4 * column + ivec4(0, 1, 2, 3), ivec4(p.channels)); }

vec4 layer_result(int image, int column) {
    int at = 4 * (image * p.m4 + column);
    ivec4 bits = ivec4(done[at], done[at + 1], done[at + 2], done[at + 3]);
    return mix(vec4(-M_INF), intBitsToFloat(bits), are_channels(column));
}

void take_softmax(int image, int lane) {
    vec4 v = vec4(-M_INF);
    for (int i = lane; i < p.m4; i += LANES) v = max(v, layer_result(image, i));
    float most = row_max(max(max(v.x, v.y), max(v.z, v.w)));
    v = vec4(0.0);
    for (int i = lane; i < p.m4; i += LANES) v += m_exp(layer_result(image, i) - most);
    float sum = row_sum((v.x + v.y) + (v.z + v.w));
    if (LOGARITHM != 0) sum = m_log(vec4(sum)).x;
    for (int i = lane; i < p.m4; i += LANES) {
        v = layer_result(image, i) - most;
        v = LOGARITHM != 0 ? v - sum : m_exp(v) / sum;
        STORE4(y, image * p.m4 + i, zero_padding_lanes(v, i, p.channels));
    }
}
#endif

#if WITHOUT_LAYER
void main() {
    int lane = int(gl_LocalInvocationID.x);
    int image = int(gl_WorkGroupID.y);
    int first = int(gl_WorkGroupID.x) * COLUMNS;
    int width = min(COLUMNS, p.m4 - first);
    take_means(image, lane, first, width);
    barrier();
    for (int i = lane; i < width; i += LANES) keep(image * p.m4 + first + i, f(vectors[i], 0, 0));
    if (is_last(image, lane)) take_softmax(image, lane);
}
#else
void main() {
    int lane = int(gl_LocalInvocationID.x);
    int image = int(gl_WorkGroupID.y);
    take_means(image, lane, 0, p.c4);
    pad_vector(0, p.c4, lane);
    barrier();
    if (ACTIVATES != 0) {
        for (int i = lane; i < p.c4; i += LANES)
            vectors[i] = zero_padding_lanes(g(vectors[i]), i, p.channels_in);
        barrier();
    }

    int width = COLUMNS;
    int first = int(gl_WorkGroupID.x) * COLUMNS;
    int parts = min(LANES / width, rounds_of(p.c4));
    SUM_COLUMNS(0, p.c4, COLUMNS, 0, first, p.m4)
    if (lane < width && column < p.m4) {
        int at = image * p.m4 + column;
        vec4 v = f(partial[lane] + LOAD4(w, p.bias + column), 0, 0);
#if SOFTMAX
        keep(at, v);
#else
        STORE4(y, at, zero_padding_lanes(v, column, p.channels));
#endif
    }
#if SOFTMAX
    if (is_last(image, lane)) take_softmax(image, lane);
#endif
}
#endif
