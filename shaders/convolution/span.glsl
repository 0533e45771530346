// Convolution, or transposed convolution (TRANSPOSED), of one to three spatial axes as an implicit
// matrix product, channels in any groups. A lane computes TN pixels times TM vec4s of output
// channels. These may belong to several groups: a block reads the span of input vec4s that holds the
// input channels of all of them, with weights of 0 for the channels of other groups.
//
// x [N, c4, D, H, W] and y [N, m4, D, H, W] in C4. w: [block][tap][span][4][TM] vec4s of output
// channels, the 4 for the lanes of an input vec4; then the bias, [block][TM].
//
// Transposed: outputs that are a stride apart (a phase) read the same taps, so a workgroup takes
// pixels of one phase, and no product with a zero between two inputs is ever made. Output o reads
// input i by tap k where o + pad = i * stride + k * dilation.
//
// SHUFFLE: see convolution/products.glsl.
// QUANT: quantized integers, requantized (quantized/sums.glsl, which has the bias too).
// FEW: weights of 4 or 2 bits (convolution/few_bits.glsl), without a bias.
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "convolution/sums.glsl"

INPUT4(0, x);
INPUT4W(1, w);
OUTPUT4(2, y);

layout(constant_id = 10) const int TN = 4;
layout(constant_id = 11) const int TM = 4;
layout(constant_id = 12) const int AXES = 2;  // spatial axes that taps run over: 2 or 3
#define FLOATS (!QUANT && ELEM == 0 && !FEW)
#if FLOATS
layout(constant_id = 13) const int AGAIN = 0;  // results that are NaN are computed anew, see below
#endif

layout(push_constant) uniform P {
    int total, tiles;         // workgroups; tiles of a phase of an image
    int c4, span, channels;   // vec4s of input channels; of them in a block; output channels
    int group_in, group_out;  // channels of a group
    int bias;                 // where the bias starts
    int in_d, in_h, in_w, out_d, out_h, out_w;
    int kernel_d, kernel_h, kernel_w;
    int stride_d, stride_h, stride_w;
    int pad_d, pad_h, pad_w;
#if TRANSPOSED
    // With g = gcd(stride, dilation): step = stride / g, reach = dilation / g, and inverse that of
    // reach modulo step. Taps of a phase are a step apart, the inputs that they read a reach.
    int step_d, step_h, step_w;
    int reach_d, reach_h, reach_w;
    int inverse_d, inverse_h, inverse_w;
#else
    int dilation_d, dilation_h, dilation_w;
    int plane, shift;         // vec4s of an output plane; where in y the first of this dispatch lies
#endif
} p;

#include "convolution/products.glsl"
#if TRANSPOSED
#include "convolution/conv_transpose_taps.glsl"
#endif

void main() {
    int id = linear_group();
    if (id >= p.total) return;
    int lane = int(gl_LocalInvocationID.x);
    int lanes = int(gl_WorkGroupSize.x);
    ivec3 in_size = ivec3(p.in_w, p.in_h, p.in_d);
    ivec3 out_size = ivec3(p.out_w, p.out_h, p.out_d);
    ivec3 kernel = ivec3(p.kernel_w, p.kernel_h, p.kernel_d);
    ivec3 stride = ivec3(p.stride_w, p.stride_h, p.stride_d);
    ivec3 pad = ivec3(p.pad_w, p.pad_h, p.pad_d);
    int m4 = (p.channels + 3) / 4;
    int blocks = divide(m4 + TM - 1, TM);

    int rest = divide(id, p.tiles);
    int first = (id - rest * p.tiles) * TN * lanes + lane;
#if TRANSPOSED
    ivec3 phases = min(stride, out_size), phase = ivec3(0);
    int next = divide(rest, phases.x);
    phase.x = rest - next * phases.x;
    rest = next;
    next = divide(rest, phases.y);
    phase.y = rest - next * phases.y;
    rest = next;
    if (AXES == 3) {
        next = divide(rest, phases.z);
        phase.z = rest - next * phases.z;
        rest = next;
    }
    ivec3 pixels = ivec3(divide(out_size.x + stride.x - 1, stride.x),
                         divide(out_size.y + stride.y - 1, stride.y), 1);
    if (AXES == 3) pixels.z = divide(out_size.z + stride.z - 1, stride.z);
    ivec3 tap0 = ivec3(0), count = ivec3(1), place = ivec3(0);
    find_taps(phase.x, pad.x, stride.x, p.step_w, p.reach_w, p.inverse_w, kernel.x, tap0.x, count.x, place.x);
    find_taps(phase.y, pad.y, stride.y, p.step_h, p.reach_h, p.inverse_h, kernel.y, tap0.y, count.y, place.y);
    if (AXES == 3)
        find_taps(phase.z, pad.z, stride.z, p.step_d, p.reach_d, p.inverse_d, kernel.z, tap0.z, count.z, place.z);
    ivec3 step_ = ivec3(p.step_w, p.step_h, p.step_d);
    ivec3 reach = -ivec3(p.reach_w, p.reach_h, p.reach_d);
#else
    ivec3 pixels = out_size;
    ivec3 tap0 = ivec3(0), count = kernel, step_ = ivec3(1);
    ivec3 reach = ivec3(p.dilation_w, p.dilation_h, p.dilation_d);
#endif
    int image = divide(rest, blocks);
    int block = rest - image * blocks;

    ivec3 origin[TN];  // input coordinates of the first tap
    int target[TN];    // where in an output plane, or -1
    [[unroll]] for (int i = 0; i < TN; i++) {
        int pixel = first + i * lanes;
        int row = divide(pixel, pixels.x);
        int layer = AXES == 3 ? divide(row, pixels.y) : 0;
        ivec3 at = ivec3(pixel - row * pixels.x, row - layer * pixels.y, layer);
#if TRANSPOSED
        ivec3 to = at * stride + phase;
        origin[i] = at + place;
#else
        ivec3 to = at;
        origin[i] = at * stride - pad;
#endif
        bool inside = all(lessThan(to, out_size));
        target[i] = inside ? (to.z * out_size.y + to.y) * out_size.x + to.x : -1;
    }

    BEGIN_SUMS(sum, partial, p.bias + block * TM)
    ZERO_POINT

    int span = p.span;
    int start = min(divide(4 * block * TM, p.group_out) * p.group_in / 4, p.c4 - span);
    int in_plane = in_size.x * in_size.y * in_size.z;
    int source = (image * p.c4 + start) * in_plane;
    int steps = count.x * count.y * span;
    int taps = kernel.x * kernel.y;
    if (AXES == 3) {
        steps *= count.z;
        taps *= kernel.z;
    }
    int base = block * taps * span * WEIGHT_ROWS * TM;
    int c = 0;
    ivec3 k = ivec3(0);
    // One loop over taps and channels, without branches: CPU drivers run the body of a loop once
    // more, masked, and carry every sum through each level of a nest.
    for (int round = 0; round < steps; round++) {
        int plane = source + c * in_plane;
        ivec3 moved = k * reach, tap = tap0 + k * step_;
        int number = tap.y * kernel.x + tap.x;
        if (AXES == 3) number += tap.z * kernel.y * kernel.x;
        int weight = base + (number * span + c) * WEIGHT_ROWS * TM;
        INPUT_FACTOR a[TN];
        [[unroll]] for (int i = 0; i < TN; i++) {
            ivec3 at = origin[i] + moved;
            bool inside = uint(at.x) < uint(in_size.x) && uint(at.y) < uint(in_size.y);
            if (AXES == 3) inside = inside && uint(at.z) < uint(in_size.z);
            int from = ((AXES == 3 ? at.z * in_size.y : 0) + at.y) * in_size.x + at.x;
            a[i] = TAKE(LOAD4(x, plane + (inside ? from : 0)));
            a[i] = inside ? a[i] : OUTSIDE;
        }
        c++;
        NEXT_TAP(c, span, k, count)
        HOLD_WEIGHTS(w, weight)
        ADD_PRODUCTS(sum, partial, a, w, weight)
        ADD_PARTIAL_SUMS(sum, partial, TN * TM, round)
    }
    ADD_LAST_SUMS(sum, partial, TN * TM)

#if TRANSPOSED
    int out_plane = out_size.x * out_size.y * out_size.z, shift = 0;
#else
    int out_plane = p.plane, shift = p.shift;
#endif
    int m = block * TM;
#if FLOATS
    bool again = false;  // see below
    if (AGAIN != 0)
        [[unroll]] for (int i = 0; i < TN * TM; i++) again = again || any(isnan(sum[i]));
#endif
    // A vec4 of channels a round, for which the sums behind it move up: unrolled, the stores would be
    // more code than all the rest.
    [[dont_unroll]] for (int j = 0; j < TM; j++) {
        READ_SETTING(m + j, m4)
        [[unroll]] for (int i = 0; i < TN; i++) {
            if (target[i] >= 0 && m + j < m4) {
                int at = shift + (image * m4 + m + j) * out_plane + target[i];
                VEC4 v = RESULT(sum, i * TM, at, m + j);
                STORE4(y, at, zero_padding_lanes(v, m + j, p.channels));
            }
        }
        NEXT_SUMS(sum, TN * TM)
    }
#if FLOATS
    // An infinity or NaN times the zeros that stand for other groups, or for what lies outside of a
    // transposed convolution's input, is NaN where it should not count: then without these products.
    for (int n = again ? 0 : TN * TM; n < TN * TM; n++) {
        int pixel = first + n / TM * lanes, own = m + n % TM;
        int row = divide(pixel, pixels.x);
        int layer = AXES == 3 ? divide(row, pixels.y) : 0;
        ivec3 at = ivec3(pixel - row * pixels.x, row - layer * pixels.y, layer);
#if TRANSPOSED
        ivec3 to = at * stride + phase, corner = at + place;
#else
        ivec3 to = at, corner = at * stride - pad;
#endif
        if (own >= m4 || any(greaterThanEqual(to, out_size))) continue;
        // Vec4 of input channels c holds those of an output channel's group from 4 c on, and so many.
        ivec4 begins = ivec4(-4 * start);
        [[unroll]] for (int q = 0; q < 4; q++) begins[q] += divide(4 * own + q, p.group_out) * p.group_in;
        VEC4 v = BIAS(p.bias + own);
        c = 0;
        k = ivec3(0);
        for (int round = 0; round < steps; round++) {
            ivec3 tap = tap0 + k * step_, from = corner + k * reach;
            int number = (AXES == 3 ? tap.z * kernel.y + tap.y : tap.y) * kernel.x + tap.x;
            int weight = base + (number * span + c) * 4 * TM + n % TM;
            bool inside = uint(from.x) < uint(in_size.x) && uint(from.y) < uint(in_size.y);
            if (AXES == 3) inside = inside && uint(from.z) < uint(in_size.z);
            int place_ = ((AXES == 3 ? from.z * in_size.y : 0) + from.y) * in_size.x + from.x;
            VEC4 a_ = LOAD4(x, source + c * in_plane + (inside ? place_ : 0));
            a_ = inside ? a_ : VEC4(0);
            [[unroll]] for (int q = 0; q < 4; q++) {
                bvec4 taken = lessThan(uvec4(ivec4(4 * c + q) - begins), uvec4(p.group_in));
                taken = bvec4(uvec4(taken) * uint(inside || TRANSPOSED == 0));
                v = mix(v, fma(VEC4(a_[q]), LOAD4(w, weight + q * TM), v), taken);
            }
            c++;
            NEXT_TAP(c, span, k, count)
        }
        int goal = shift + (image * m4 + own) * out_plane + (to.z * out_size.y + to.y) * out_size.x + to.x;
        STORE4(y, goal, zero_padding_lanes(epilogue4(v, goal, own), own, p.channels));
    }
#endif
}
