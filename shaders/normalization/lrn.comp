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

layout(push_constant) uniform P {
    int total, c4, channels, depth, height, width;
    int before_c, after_c, before_d, after_d, before_h, after_h, before_w, after_w;
    float alpha, beta, bias;
} p;

// Adds the squares of the four channels from channel `first` on to those sums whose window, around
// channel `centre` + lane, holds them.
vec4 add_squares(vec4 sum, vec4 v, int first, int centre) {
    [[unroll]] for (int q = 0; q < 4; q++) {
        ivec4 distance = ivec4(first + q - centre) - ivec4(0, 1, 2, 3);
        float square = v[q] * v[q];
        sum += vec4(distance.x >= -p.before_c && distance.x <= p.after_c ? square : 0.0,
                    distance.y >= -p.before_c && distance.y <= p.after_c ? square : 0.0,
                    distance.z >= -p.before_c && distance.z <= p.after_c ? square : 0.0,
                    distance.w >= -p.before_c && distance.w <= p.after_c ? square : 0.0);
    }
    return sum;
}

void main() {
    int id = linear_lane();
    if (id >= p.total) return;
    int line = divide(id, p.width);
    int slice = divide(line, p.height);
    int plane = divide(slice, p.depth);
    int image = divide(plane, p.c4);
    int c = plane - image * p.c4;
    ivec3 at = ivec3(id - line * p.width, line - slice * p.height, slice - plane * p.depth);
    ivec3 low = max(at - ivec3(p.before_w, p.before_h, p.before_d), ivec3(0));
    ivec3 high = min(at + ivec3(p.after_w, p.after_h, p.after_d), ivec3(p.width, p.height, p.depth) - 1);
    int c_low = max(4 * c - p.before_c, 0) / 4;
    int c_high = min(4 * c + 3 + p.after_c, p.channels - 1) / 4;

    vec4 sum = vec4(0.0);
    for (int k = c_low; k <= c_high; k++)
        for (int z_ = low.z; z_ <= high.z; z_++)
            for (int y_ = low.y; y_ <= high.y; y_++) {
                int row = (((image * p.c4 + k) * p.depth + z_) * p.height + y_) * p.width;
                for (int x_ = low.x; x_ <= high.x; x_++)
                    sum = add_squares(sum, LOAD4(x, row + x_), 4 * k, 4 * c);
            }
    vec4 v = LOAD4(x, id) * m_pow(p.bias + p.alpha * sum, vec4(-p.beta));
    STORE4(y, id, zero_padding_lanes(v, c, p.channels));
}
