#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Local response normalisation over a window of channels, depth, rows and columns:
// y = x * (bias + alpha * sum of squares) ^ -beta. A lane computes a vec4 of channels of a pixel.
//
// x and y [N, c4, D, H, W] in C4.
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "common/mathf.glsl"

INPUT4(0, x);
OUTPUT4(1, y);

layout(constant_id = 10) const int BEFORE_C = 0;  // channels of the window before its centre, and behind
layout(constant_id = 11) const int AFTER_C = 0;
layout(constant_id = 12) const int SPATIAL = 1;   // 0: the window is of one pixel
layout(constant_id = 13) const int QUARTERS = 0;  // 2, 3: beta is so many quarters, and needs roots alone

layout(push_constant) uniform P {
    int total, c4, channels, depth, height, width;
    int before_d, after_d, before_h, after_h, before_w, after_w;
    float alpha, beta, bias;
} p;

// vec4s of channels that the window reaches to beside its own. With few of them each has code of its own,
// which knows what channels belong to the windows of what others.
const int BLOCKS_BEFORE = (BEFORE_C + 3) / 4, BLOCKS_AFTER = (AFTER_C + 3) / 4;
const bool FEW = BLOCKS_BEFORE + BLOCKS_AFTER <= 4;

// Adds the squares of four channels `block` vec4s from a lane's own to those sums whose window holds them.
vec4 add_squares(vec4 sum, vec4 v, int block) {
    v *= v;
    [[unroll]] for (int q = 0; q < 4; q++) {
        [[unroll]] for (int j = 0; j < 4; j++) {
            int distance = 4 * block + q - j;
            if (distance >= -BEFORE_C && distance <= AFTER_C) sum[j] += v[q];
        }
    }
    return sum;
}

// The same of all pixels of the window, those of a plane from `low` to `high`; `c`: the lane's own vec4.
vec4 add_block(vec4 sum, int id, int c, int block, ivec3 low, ivec3 high) {
    int k = clamp(c + block, 0, p.c4 - 1), area = p.height * p.width;
    bool inside = k == c + block;
    if (SPATIAL == 0) {
        vec4 v = LOAD4(x, id + (k - c) * area * p.depth);
        return add_squares(sum, inside ? v : vec4(0.0), block);
    }
    if (!inside) return sum;
    int plane = divide(id, area * p.depth) + block;
    for (int z_ = low.z; z_ <= high.z; z_++)
        for (int y_ = low.y; y_ <= high.y; y_++) {
            int row = ((plane * p.depth + z_) * p.height + y_) * p.width;
            for (int x_ = low.x; x_ <= high.x; x_++) sum = add_squares(sum, LOAD4(x, row + x_), block);
        }
    return sum;
}

vec4 factor(vec4 v) {
    if (QUARTERS == 2) return 1.0 / sqrt(v);
    vec4 root = sqrt(v);
    return QUARTERS == 3 ? 1.0 / (root * sqrt(root)) : m_pow(v, vec4(-p.beta));
}

void main() {
    int id = linear_lane();
    if (id >= p.total) return;
    int line = divide(id, p.width);
    int slice = divide(line, p.height);
    int plane = divide(slice, p.depth);
    int c = plane - divide(plane, p.c4) * p.c4;
    ivec3 at = ivec3(id - line * p.width, line - slice * p.height, slice - plane * p.depth);
    ivec3 low = max(at - ivec3(p.before_w, p.before_h, p.before_d), ivec3(0));
    ivec3 high = min(at + ivec3(p.after_w, p.after_h, p.after_d), ivec3(p.width, p.height, p.depth) - 1);

    vec4 sum = vec4(0.0);
    if (FEW) {
        [[unroll]] for (int block = -BLOCKS_BEFORE; block <= BLOCKS_AFTER; block++)
            sum = add_block(sum, id, c, block, low, high);
    } else {
        int first = max(-BLOCKS_BEFORE, -c), last = min(BLOCKS_AFTER, p.c4 - 1 - c);
        for (int block = first; block <= last; block++) sum = add_block(sum, id, c, block, low, high);
    }
    vec4 v = LOAD4(x, id) * factor(p.bias + p.alpha * sum);
    STORE4(y, id, zero_padding_lanes(v, c, p.channels));
}
