// Which taps an output of a transposed convolution reads.

#ifndef VKNN_TRANSPOSED_TAPS_GLSL
#define VKNN_TRANSPOSED_TAPS_GLSL

#include "common/grid.glsl"

// Along one axis: the first tap of the outputs q * stride + phase, the number of its taps, and the
// input that output q = 0 reads by the first of them.
void find_taps(int phase, int pad, int stride, int step_, int reach, int inverse, int kernel,
               out int first, out int count, out int place) {
    int whole = divide(phase + pad, stride);
    int rest = phase + pad - whole * stride;
    int common_ = divide(stride, step_);  // gcd(stride, dilation)
    int part = divide(rest, common_);
    int product = part * inverse;
    first = product - divide(product, step_) * step_;
    bool any = part * common_ == rest && first < kernel;
    count = any ? divide(kernel - first + step_ - 1, step_) : 0;
    first = any ? first : 0;
    // first * dilation - rest is a multiple of the stride, and may be negative
    int back = first * reach * common_ - rest;
    place = whole - (back < 0 ? -divide(-back, stride) : divide(back, stride));
}

#endif
