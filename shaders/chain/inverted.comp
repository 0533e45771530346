#version 450
#pragma vknn variants ACCESS=0
#pragma vknn variants ACCESS=0 HALF=1
#pragma vknn variants ACCESS=0 HALF=1 HALF_SUMS=1
#pragma vknn variants ACCESS=0 HALF=1 DOTS=1,2
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// An inverted residual block, for GPUs: a convolution of one tap, a depthwise one of two axes and another
// one of one tap, y = f(C h(A g(B x + b) + a) + c). A workgroup computes a tile of all channels of y and
// goes through the channels between in slices: of each it holds g of the field of pixels that the tile's
// windows reach in shared memory, then h of the tile, and adds the products with that to its sums. So what
// lies between is never in memory; where fields of neighbouring tiles overlap, B x is computed again.
//
// Lanes have pixels and vec4s of channels, neighbouring lanes neighbouring channels. For the last
// convolution they may have parts of a slice, too; then their sums are joined in the end.
//
// x [N, X4, H, W] and y [N, M4, out H, out W] in C4. w, with S the slice: B [slice][X4][4][S], b [slice][S],
// A [slice][tap][S], a [slice][S], C [slice][S][4][columns], c [columns]; columns are M4 rounded up to COLS.
#define ELEM 0
#define SHUFFLE 0
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "common/quotients.glsl"
#include "convolution/sums.glsl"

INPUT4(0, x);
INPUT4W(1, w);
OUTPUT4(2, y);

layout(constant_id = 10) const int LANES = 64;
layout(constant_id = 11) const int SLICE = 8;
layout(constant_id = 12) const int X4 = 4;
layout(constant_id = 13) const int M4 = 4;
layout(constant_id = 14) const int TILE_H = 4;
layout(constant_id = 15) const int TILE_W = 4;
layout(constant_id = 16) const int KERNEL_H = 3;
layout(constant_id = 17) const int KERNEL_W = 3;
layout(constant_id = 18) const int STRIDE_H = 1;
layout(constant_id = 19) const int STRIDE_W = 1;
layout(constant_id = 20) const int DILATION_H = 1;
layout(constant_id = 21) const int DILATION_W = 1;
layout(constant_id = 22) const int FIRST_PIXELS = 2;  // of a lane in the first convolution, and vec4s
layout(constant_id = 23) const int FIRST_COLS = 1;
layout(constant_id = 24) const int STEPS = 4;  // vec4s of x whose products stand in a loop's round,
layout(constant_id = 25) const int AHEAD = 2;  // and of which the loads stand together
layout(constant_id = 26) const int PIXELS = 2;  // of a lane in the last convolution, and vec4s
layout(constant_id = 27) const int COLS = 1;
layout(constant_id = 28) const int PARTS = 2;  // of a slice
layout(constant_id = 29) const int LAST_AHEAD = 2;
// 1: of the depthwise convolution the weights of a row of taps are loaded together, else all of them.
layout(constant_id = 30) const int BY_ROWS = 0;
// Pixels of an image of x where a load reaches a pixel's next vec4 of channels, too, else 0.
layout(constant_id = 31) const int PLANE = 0;
const int TAPS = KERNEL_H * KERNEL_W;
const int TILE = TILE_H * TILE_W;
const int FIELD_H = (TILE_H - 1) * STRIDE_H + (KERNEL_H - 1) * DILATION_H + 1;
const int FIELD_W = (TILE_W - 1) * STRIDE_W + (KERNEL_W - 1) * DILATION_W + 1;
const int FIELD = FIELD_H * FIELD_W;
// Lanes beside each other in the first convolution: of channels, of pixels; rounds of the depthwise one;
// lanes of channels and of pixels in the last.
const int LANES_C = SLICE / FIRST_COLS;
const int LANES_P = LANES / LANES_C;
const int ROUNDS = (TILE * SLICE + LANES - 1) / LANES;
const int LAST_C = (M4 + COLS - 1) / COLS;
const int LAST_P = (TILE + PIXELS - 1) / PIXELS;
const int ROW = LAST_C * COLS;
const int WHOLE_STEPS = X4 / STEPS * STEPS;
// Steps of the first and of the last convolution whose weights are so near each other that their distance
// is in the instructions of loads (4,095 bytes on AMD's GPUs), and vec4s of a lane's part of a slice.
const int REACH = 4096 / (HALF != 0 ? 8 : 16);
const int FIRST_NEAR = REACH > 4 * SLICE ? REACH / (4 * SLICE) : 1;
const int LAST_NEAR = REACH > 4 * ROW ? REACH / (4 * ROW) : 1;
const int PLANES_NEAR = PLANE == 0 ? X4 : (REACH - 1) / (PLANE == 0 ? 1 : PLANE) + 1;
const int OWN = SLICE / PARTS;

layout(push_constant) uniform P {
    int tiles_w, tiles, total;  // in a row and in an image; workgroups
    int slices;
    int middle, channels;  // between the convolutions, of y
    int in_h, in_w, out_h, out_w;
    int pad_h, pad_w;
    int first_bias, depthwise, depthwise_bias, last, last_bias;  // where b, A, a, C and c begin
    // 1. A compiler that knew it would find an address for each load, beyond reach from each other's.
    int one;
} p;

// A wave waits for what it loaded first: so loads of weights, too, stand ahead of products.
#define WEIGHT(name, place, q, j) name[(place) + (q) * TM + (j)]
#include "convolution/products.glsl"

vec4 g(vec4 v) {
    const int index = 0, channel = 0;  // of operands, which neither g nor h has
    vec4 p, q;
    EPILOGUE_STEP(0)
    EPILOGUE_STEP(1)
    return v;
}

vec4 h(vec4 v) {
    const int index = 0, channel = 0;
    vec4 p, q;
    EPILOGUE_STEP(2)
    EPILOGUE_STEP(3)
    return v;
}

vec4 f(vec4 v, int index, int channel) {
    vec4 p, q;
    EPILOGUE_STEP(4)
    EPILOGUE_STEP(5)
    return v;
}

// In shared memory: a slice of the field, then of the tile, [pixel][vec4 of channels]; in the end the parts'
// sums, [part][column][pixel]. What is multiplied as float16 is held as such.
const int TILE_ROW = SLICE + 1;  // so that pixels beside each other lie in different banks
const int TILE_HELD = FIELD * SLICE;
#if defined(DOTS) || defined(HALF_SUMS)
#define HELD uvec2
#define HELD_FACTOR f16vec4
#define WORDS_OF_SUM 2
uvec2 to_held(vec4 v) {
    f16vec4 rounded = f16vec4(v);
    return uvec2(packFloat2x16(rounded.xy), packFloat2x16(rounded.zw));
}
f16vec4 from_held(uvec2 v) { return f16vec4(unpackFloat2x16(v.x), unpackFloat2x16(v.y)); }
#else
#define HELD vec4
#define HELD_FACTOR vec4
#define WORDS_OF_SUM 1
#define to_held(v) (v)
#define from_held(v) (v)
#endif
const int HELD_SLICE = TILE_HELD + TILE * TILE_ROW;
const int HELD_SUMS = PARTS * TILE * ROW * WORDS_OF_SUM;
shared HELD held[HELD_SLICE > HELD_SUMS ? HELD_SLICE : HELD_SUMS];

// What a lane finds but once, before all slices. Of the first convolution: its column and its first pixel of
// the field, where its pixels are in x, and whether they are in the image.
int first_column, first_pixel, place[FIRST_PIXELS];
bool inside[FIRST_PIXELS];
// Of the depthwise one: its column, its first pixel, and where in the field the windows of its pixels begin.
int own_column, own_pixel, corner[ROUNDS];
// Of the last one: where what it multiplies is held, and its place in a slice's weights; less than 0: it has none.
int factor[PIXELS], last_place;

// Where in the field a pixel's window begins.
int corner_of(int pixel) {
    int line = whole_part(pixel, TILE_W);
    return line * STRIDE_H * FIELD_W + (pixel - line * TILE_W) * STRIDE_W;
}

void find_places(int image, ivec2 begin) {
    int lane = int(gl_LocalInvocationID.x);
    first_column = rest(lane, LANES_C);
    first_pixel = whole_part(lane, LANES_C);
    [[unroll]] for (int i = 0; i < FIRST_PIXELS; i++) {
        uint pixel = uint(min(first_pixel + i * LANES_P, FIELD - 1));
        ivec2 at = begin + ivec2(pixel % uint(FIELD_W), pixel / uint(FIELD_W));
        inside[i] = uint(at.x) < uint(p.in_w) && uint(at.y) < uint(p.in_h);
        place[i] = image * X4 * (p.in_h * p.in_w) + (inside[i] ? at.y * p.in_w + at.x : 0);
    }
    own_column = rest(lane, SLICE);
    own_pixel = whole_part(lane, SLICE);
    [[unroll]] for (int r = 0; r < ROUNDS; r++)
        corner[r] = corner_of(min(own_pixel + r * (LANES / SLICE), TILE - 1)) * SLICE + own_column;
    int column = rest(lane, LAST_C), pixel = rest(whole_part(lane, LAST_C), LAST_P);
    int part = whole_part(lane, LAST_C * LAST_P);
    last_place = part < PARTS ? part * OWN * (4 * ROW) + column : -1;
    [[unroll]] for (int i = 0; i < PIXELS; i++)
        factor[i] = TILE_HELD + min(pixel + i * LAST_P, TILE - 1) * TILE_ROW + part * OWN;
}

// Products of `count` vec4s from number `first` on, `ahead` at a time; of those
// LOAD_FACTOR(i, first, s) is number first + s of a pixel, LOAD_WEIGHT(at, s, q, j) is of row q of its weights, and WEIGHTS_AT(first, s) where
// those of number first + s lie, by the first of NEAR that are near each other.
#define ADD_STEPS(sum, partial, first, count, ahead) \
    [[unroll]] for (int b_ = 0; b_ < (count); b_ += (ahead)) { \
        HELD_FACTOR x_[(ahead) * TN]; \
        vec4 w_[(ahead) * 4 * TM]; \
        [[unroll]] for (int s_ = 0; s_ < (ahead); s_++) if (b_ + s_ < (count)) { \
            int at_ = WEIGHTS_AT(first, b_ + s_); \
            [[unroll]] for (int i_ = 0; i_ < TN; i_++) x_[s_ * TN + i_] = LOAD_FACTOR(i_, first, b_ + s_); \
            [[unroll]] for (int q_ = 0; q_ < 4; q_++) \
                [[unroll]] for (int j_ = 0; j_ < TM; j_++) \
                    w_[(s_ * 4 + q_) * TM + j_] = LOAD_WEIGHT(at_, (b_ + s_) % NEAR, q_, j_); \
        } \
        [[unroll]] for (int s_ = 0; s_ < (ahead); s_++) if (b_ + s_ < (count)) { \
            HELD_FACTOR a_[TN]; \
            [[unroll]] for (int i_ = 0; i_ < TN; i_++) a_[i_] = x_[s_ * TN + i_]; \
            ADD_PRODUCTS(sum, partial, a_, w_, s_ * 4 * TM) \
            ADD_PARTIAL_SUMS(sum, partial, TN * TM, b_ + s_) \
        } \
    } \
    ADD_LAST_SUMS(sum, partial, TN * TM)

#define TN FIRST_PIXELS
#define TM FIRST_COLS
#define LOAD_FACTOR(i, first, s) \
    HELD_FACTOR(LOAD4(x, place[i] + ((first) + (s) / PLANES_NEAR * PLANES_NEAR * p.one) * plane + \
                             (s) % PLANES_NEAR * plane))
#define NEAR FIRST_NEAR
#define WEIGHTS_AT(first, s) (weight + ((first) + (s) / NEAR * NEAR * p.one) * (4 * SLICE))
#define LOAD_WEIGHT(at, s, q, j) LOAD4(w, (at) + ((s) * 4 + (q)) * SLICE + (j) * LANES_C)

// Holds g(B x + b) of the field, 0 outside of the image.
void expand(int slice) {
    int plane = PLANE == 0 ? p.in_h * p.in_w : PLANE, weight = slice * (X4 * 4 * SLICE) + first_column;
    vec4 sum[TN * TM];
    [[unroll]] for (int j = 0; j < TM; j++) {
        vec4 b = LOAD4(w, p.first_bias + slice * SLICE + first_column + j * LANES_C);
        [[unroll]] for (int i = 0; i < TN; i++) sum[i * TM + j] = b;
    }
    PARTIAL_SUMS(partial, TN * TM)
    if (WHOLE_STEPS > STEPS) {
        [[dont_unroll]] for (int k = 0; k < WHOLE_STEPS; k += STEPS) {
            ADD_STEPS(sum, partial, k, STEPS, AHEAD)
        }
    } else {
        ADD_STEPS(sum, partial, 0, STEPS, AHEAD)
    }
    if (X4 > WHOLE_STEPS) {
        ADD_STEPS(sum, partial, WHOLE_STEPS, X4 - WHOLE_STEPS, AHEAD)
    }
    [[unroll]] for (int i = 0; i < TN; i++) {
        int pixel = first_pixel + i * LANES_P;
        if (pixel < FIELD)
            [[unroll]] for (int j = 0; j < TM; j++) {
                vec4 v = inside[i] ? g(sum[i * TM + j]) : vec4(0.0);
                held[pixel * SLICE + first_column + j * LANES_C] = to_held(v);
            }
    }
}
#undef TN
#undef TM
#undef LOAD_FACTOR
#undef LOAD_WEIGHT
#undef NEAR
#undef WEIGHTS_AT

void hold_filtered(int slice, int pixel, vec4 v) {
    // Behind the last channel, too, it is multiplied.
    v = zero_padding_lanes(h(v), slice * SLICE + own_column, p.middle);
    held[TILE_HELD + pixel * TILE_ROW + own_column] = to_held(v);
}

// Holds h(A v + a) of the tile, v as `expand` left it.
void filter_field(int slice) {
    vec4 weights[TAPS];
    [[unroll]] for (int t = 0; t < TAPS; t++)
        weights[t] = LOAD4(w, p.depthwise + (slice * TAPS + t) * SLICE + own_column);
    vec4 bias = LOAD4(w, p.depthwise_bias + slice * SLICE + own_column);
    [[unroll]] for (int r = 0; r < ROUNDS; r++) {
        int pixel = own_pixel + r * (LANES / SLICE);
        if (pixel < TILE) {
            vec4 v = bias;
            [[unroll]] for (int t = 0; t < TAPS; t++) {
                int from = t / KERNEL_W * DILATION_H * FIELD_W + t % KERNEL_W * DILATION_W;
                v = fma(vec4(from_held(held[corner[r] + from * SLICE])), weights[t], v);
            }
            hold_filtered(slice, pixel, v);
        }
    }
}

// The same, row by row of the taps: registers do not hold the weights of large windows beside the sums.
void filter_field_by_rows(int slice) {
    vec4 bias = LOAD4(w, p.depthwise_bias + slice * SLICE + own_column), v[ROUNDS];
    [[unroll]] for (int r = 0; r < ROUNDS; r++) v[r] = bias;
    [[dont_unroll]] for (int y_ = 0; y_ < KERNEL_H; y_++) {
        int weight = p.depthwise + (slice * TAPS + y_ * KERNEL_W) * SLICE + own_column;
        int row = y_ * (DILATION_H * FIELD_W * SLICE);
        vec4 weights[KERNEL_W];
        [[unroll]] for (int x_ = 0; x_ < KERNEL_W; x_++) weights[x_] = LOAD4(w, weight + x_ * SLICE);
        [[unroll]] for (int r = 0; r < ROUNDS; r++) {
            [[unroll]] for (int x_ = 0; x_ < KERNEL_W; x_++) {
                int at = corner[r] + row + x_ * (DILATION_W * SLICE);
                v[r] = fma(vec4(from_held(held[at])), weights[x_], v[r]);
            }
        }
    }
    [[unroll]] for (int r = 0; r < ROUNDS; r++) {
        int pixel = own_pixel + r * (LANES / SLICE);
        if (pixel < TILE) hold_filtered(slice, pixel, v[r]);
    }
}

#define TN PIXELS
#define TM COLS
#define LOAD_FACTOR(i, first, s) from_held(held[factor[i] + (first) + (s)])
#define NEAR LAST_NEAR
#define WEIGHTS_AT(first, s) (weight + (s) / NEAR * NEAR * p.one * (4 * ROW))
#define LOAD_WEIGHT(at, s, q, j) LOAD4(w, (at) + ((s) * 4 + (q)) * ROW + (j) * LAST_C)
vec4 total[TN * TM];

// Adds the products with what `filter_field` left, of a lane's part of the slice.
void project(int slice) {
    if (last_place < 0) return;
    int weight = p.last + slice * (SLICE * 4 * ROW) + last_place;
    PARTIAL_SUMS(partial, TN * TM)
    ADD_STEPS(total, partial, 0, OWN, LAST_AHEAD)
}

void hold_sums() {
    int lane = int(gl_LocalInvocationID.x);
    int column = rest(lane, LAST_C), first = rest(whole_part(lane, LAST_C), LAST_P);
    int part = whole_part(lane, LAST_C * LAST_P);
    if (part >= PARTS) return;
    [[unroll]] for (int i = 0; i < TN; i++) {
        int pixel = first + i * LAST_P;
        if (pixel < TILE)
            [[unroll]] for (int j = 0; j < TM; j++) {
                int at = ((part * ROW + column + j * LAST_C) * TILE + pixel) * WORDS_OF_SUM;
#if WORDS_OF_SUM == 1
                held[at] = total[i * TM + j];
#else
                uvec4 bits = floatBitsToUint(total[i * TM + j]);
                held[at] = bits.xy;
                held[at + 1] = bits.zw;
#endif
            }
    }
}

vec4 held_sum(int at) {
#if WORDS_OF_SUM == 1
    return held[at];
#else
    return uintBitsToFloat(uvec4(held[2 * at], held[2 * at + 1]));
#endif
}

void main() {
    int id = linear_group();
    if (id >= p.total) return;
    int lane = int(gl_LocalInvocationID.x);
    int image = divide(id, p.tiles), tile = id - image * p.tiles, line = divide(tile, p.tiles_w);
    ivec2 first = ivec2((tile - line * p.tiles_w) * TILE_W, line * TILE_H);
    find_places(image, first * ivec2(STRIDE_W, STRIDE_H) - ivec2(p.pad_w, p.pad_h));

    [[unroll]] for (int k = 0; k < TN * TM; k++) total[k] = vec4(0.0);
    [[dont_unroll]] for (int slice = 0; slice < p.slices; slice++) {
        expand(slice);
        barrier();
        if (BY_ROWS != 0) filter_field_by_rows(slice);
        else filter_field(slice);
        barrier();
        project(slice);
    }
    barrier();
    hold_sums();
    barrier();

    [[dont_unroll]] for (int i = lane; i < TILE * M4; i += LANES) {
        int channel = whole_part(i, TILE), pixel = i - channel * TILE, row = whole_part(pixel, TILE_W);
        ivec2 at = first + ivec2(pixel - row * TILE_W, row);
        if (at.x < p.out_w && at.y < p.out_h) {
            vec4 v = LOAD4(w, p.last_bias + channel);
            [[unroll]] for (int part = 0; part < PARTS; part++)
                v += held_sum(part * ROW * TILE + i);
            int to = ((image * M4 + channel) * p.out_h + at.y) * p.out_w + at.x;
            STORE4(y, to, zero_padding_lanes(f(v, to, channel), channel, p.channels));
        }
    }
}
