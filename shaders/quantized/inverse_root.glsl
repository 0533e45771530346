// Inverse square roots in fixed point, bit-exact with vknn.ops.quantized.fixed_point.

#include "quantized/fixed_point.glsl"

int high(int a, int b) { return doubling_high(ivec4(a), ivec4(b)).x; }
int left(int v, int bits) { return saturating_left(ivec4(v), bits).x; }

// 1 / sqrt(v) as q * 2 ** (shift - 31): five Newton steps with 28 fractional bits.
void inverse_root(int v, out int q, out int shift) {
    int right = 11, x_ = max(v, 2);
    for (int k = 0; k < 2; ++k) {
        bool big = x_ >= (1 << 29);
        x_ = big ? x_ >> 2 : x_;
        right += big ? 1 : 0;
    }
    int pairs = (30 - findMSB(x_)) / 2 - 1;
    right -= pairs;
    x_ = x_ << (2 * max(pairs, 0));
    int half_ = rounding_shift(ivec4(x_ >> 1), ivec4(1)).x, root = 1 << 28;
    for (int k = 0; k < 5; ++k) {
        int cube = left(high(high(root, root), root), 6);
        root = left(high((1 << 28) + (1 << 27), root), 3) - left(high(half_, cube), 3);
    }
    root = high(root, 1518500250);
    if (right < 0) {
        root = root << -right;
        right = 0;
    }
    q = v <= 1 ? INT_MAX : root;
    shift = v <= 1 ? 0 : -right;
}
