// Where a lane of convolution/shared.comp finds its pixels, as it goes along k by taps and channels.
//
// Behind matmul/shared_memory_tiles.glsl, whose DEPTH, WHOLE and sizes of blocks these are.

// Spatial axes that taps run over: 2, 3, or 0 where the kernel is one tap and every output pixel
// reads the input pixel of the same number.
layout(constant_id = 17) const int AXES = 2;
// Most taps that a lane's step from one vec4 of k to its next leaves behind.
layout(constant_id = 18) const int WRAPS = 1;
// Width of the kernel where the input has one vec4 of channels and two axes, so that k counts taps; else 0.
layout(constant_id = 25) const int TAPS_W = 0;
// There, where weights are padded to whole rounds (WHOLE 1) and columns of taps lie beside each other in x: taps of
// a row with its padding, a power of two; else 0. Padding has weights of 0, and pixels as outside of the input.
layout(constant_id = 29) const int TAP_ROW = 0;
const int ROW_TAPS = TAP_ROW > 0 ? TAP_ROW : 1, ROUND_ROWS = DEPTH > ROW_TAPS ? DEPTH / ROW_TAPS : 1;
// 1: each tap is one round (WHOLE 1).
layout(constant_id = 31) const int ONE_ROUND = 0;
// 0: no tap of any pixel is outside of the input, or padding.
layout(constant_id = 30) const int OUTSIDE = 1;

// A lane reads the same pixels in every step: PIXELS of them, every STEP-th vec4 of k.
const int PIXELS = BLOCK_M > LANES ? BLOCK_M / LANES : 1;
const int STEP = LANES > BLOCK_M ? LANES / BLOCK_M : 1;
const int READS = DEPTH / STEP;

#include "convolution/conv_push.glsl"

// Input coordinates of an output pixel's first tap; with AXES 0 the pixel itself.
ivec3 origin_of(int pixel) {
    if (AXES == 0) return ivec3(pixel, 0, 0);
    int y_ = divide(pixel, p.out_w);
    int z_ = AXES == 3 ? divide(y_, p.out_h) : 0;
    ivec3 at = ivec3(pixel - y_ * p.out_w, y_ - z_ * p.out_h, z_);
    return at * ivec3(p.stride_w, p.stride_h, p.stride_d) - ivec3(p.pad_w, p.pad_h, p.pad_d);
}

// With WHOLE 1 a lane reads its pixels for one tap; else, and by rows of taps, each vec4 for another.
const bool ONE_TAP = WHOLE != 0 && TAP_ROW == 0;

// What a lane reads next: vec4 number `k` of k (taps, then channels) and with it the channel, the tap's
// distance from the first one, and how far both are from the first in x. With WHOLE 1 these are of the first
// vec4 of all lanes, and the channel is not in the distance.
int k = 0, channel4 = 0, distance = 0;
ivec3 tap = ivec3(0);
// Of its pixels: input coordinates for the first tap, and where these are in x; with WHOLE 1 its own first
// channel (by rows of taps: its own first tap) of that tap, and where it reads next.
ivec3 origin[PIXELS];
int place[PIXELS], next[ONE_TAP ? PIXELS : READS * PIXELS];
// By rows of taps: its own first tap behind that of all lanes.
ivec2 own_tap;
bool inside[READS * PIXELS];

bool is_inside(ivec3 at) {
    if (OUTSIDE == 0) return true;
    bool found = uint(at.x) < uint(p.in_w) && uint(at.y) < uint(p.in_h);
    return AXES == 3 ? found && uint(at.z) < uint(p.in_d) : found;
}

void next_tap() {
    tap.x += p.dilation_w;
    if (tap.x >= p.kernel_w * p.dilation_w) {
        tap.x = 0;
        tap.y += p.dilation_h;
        if (AXES == 3 && tap.y >= p.kernel_h * p.dilation_h) {
            tap.y = 0;
            tap.z += p.dilation_d;
        }
    }
    distance = (tap.z * p.in_h + tap.y) * p.in_w + tap.x;
}

// The tap and the channel of vec4 number `first` of k, from where on a part of it reads.
void find_beginning(int first) {
    int number = divide(first, p.cg4);
    channel4 = first - number * p.cg4;
    if (TAP_ROW != 0) {
        tap = ivec3(rest(first, ROW_TAPS), whole_part(first, ROW_TAPS) * p.dilation_h, 0);
        return;
    }
    int y_ = divide(number, p.kernel_w), z_ = AXES == 3 ? divide(y_, p.kernel_h) : 0;
    tap = ivec3(number - y_ * p.kernel_w, y_ - z_ * p.kernel_h, z_);
    tap *= ivec3(p.dilation_w, p.dilation_h, p.dilation_d);
    distance = (tap.z * p.in_h + tap.y) * p.in_w + tap.x;
}

// AXES 0 needs nothing of this: there k is a channel, and `distance` a whole number of planes.
void find_tap(int plane) {
    if (TAPS_W != 0) {
        int y_ = whole_part(k, max(1, TAPS_W));
        tap = ivec3((k - y_ * TAPS_W) * p.dilation_w, y_ * p.dilation_h, 0);
        distance = tap.y * p.in_w + tap.x;
        return;
    }
    [[unroll]] for (int t = 0; t < WRAPS; t++) {
        if (channel4 >= p.cg4) {
            channel4 -= p.cg4;
            next_tap();
            distance += channel4 * plane;
        }
    }
}

// By rows of taps: whether its pixels are inside for each vec4 of k, and where.
void find_row() {
    distance = tap.y * p.in_w + tap.x;
    [[unroll]] for (int s = 0; s < READS; s++) {
        // STEP divides the row, or the row STEP: what is added stays in its row.
        int column = rest(s * STEP, ROW_TAPS), row = whole_part(s * STEP, ROW_TAPS) * p.dilation_h;
        ivec2 own = own_tap + tap.xy + ivec2(column, row);
        bool is_tap = OUTSIDE == 0 || own.x < p.kernel_w && own.y < p.kernel_h * p.dilation_h;
        [[unroll]] for (int i = 0; i < PIXELS; i++) {
            int n = s * PIXELS + i;
            inside[n] = is_tap && is_inside(origin[i] + tap + ivec3(column, row, 0));
            next[n] = inside[n] ? place[i] + distance + row * p.in_w + column : 0;
        }
    }
}

// With WHOLE 1: whether its pixels are inside for the tap, and where. Pixels outside are read from the first
// one, which as many channels are behind.
void find_pixels() {
    [[unroll]] for (int i = 0; i < PIXELS; i++) {
        inside[i] = AXES == 0 || is_inside(origin[i] + tap);
        next[i] = inside[i] ? place[i] + distance : 0;
    }
}

// `step`: DEPTH, or 0
void step_pixels(int step, int plane) {
    if (TAP_ROW != 0) {
        if (TAP_ROW <= DEPTH) {
            tap.y += whole_part(step, ROW_TAPS) * p.dilation_h;
        } else {
            tap.x += step;
            if (tap.x >= TAP_ROW) tap = ivec3(0, tap.y + p.dilation_h, 0);
        }
        find_row();
        return;
    }
    if (ONE_ROUND != 0) {
        if (step == 0) return;
        next_tap();
        find_pixels();
        return;
    }
    channel4 += step;
    if (AXES == 0 || channel4 < p.cg4) {
        [[unroll]] for (int i = 0; i < PIXELS; i++) next[i] += step * plane;
    } else {
        channel4 = 0;
        next_tap();
        find_pixels();
    }
}
