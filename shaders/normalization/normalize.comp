#version 450
#pragma vknn variants ACCESS=0,1,2 WIDE=0,1 STAGE=0 AFFINE=0,1
#pragma vknn variants ACCESS=0,1,2 WIDE=1 STAGE=0 AFFINE=2
#pragma vknn variants ACCESS=0,1,2 WIDE=0,1 STAGE=1 AFFINE=0
#pragma vknn variants ACCESS=0,1,2 WIDE=0,1 STAGE=2 AFFINE=0,1
#pragma vknn variants ACCESS=0,1,2 WIDE=1 STAGE=2 AFFINE=2
#pragma vknn variants ACCESS=0,1,2 WIDE=0,1 STAGE=0 AFFINE=0,1 HALF=1
#pragma vknn variants ACCESS=0,1,2 WIDE=1 STAGE=0 AFFINE=2 HALF=1
#pragma vknn variants ACCESS=0,1,2 WIDE=0,1 STAGE=1 AFFINE=0 HALF=1
#pragma vknn variants ACCESS=0,1,2 WIDE=0,1 STAGE=2 AFFINE=0,1 HALF=1
#pragma vknn variants ACCESS=0,1,2 WIDE=1 STAGE=2 AFFINE=2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// y = (x - mean) * factor * scale + shift for each row (reduction/reduction_axes.glsl); mean and
// factor are those of the row.
//
// AFFINE 0: no scale and shift. 1: a scalar for an element. 2: a vec4 for an item. NUMBER 0: the one for
// the element (or item) at `at` has the number at / spread modulo period, 1: one scalar so for all of an
// item, 2: elements (or items) are numbered along the row. Shifts begin at `shifts`.
//
// STAGE 0 does all with one dispatch: mean, then mean square of what is left, then the result, in three
// readings. Few long rows are cut into parts: 1 leaves the mean, the sum of the squares about it and
// the number of elements for each part; normalization/moments.comp joins them; 2 makes the result.
#if WIDE
INPUT4F(0, x);
#else
INPUT1F(0, x);
#endif
#if STAGE == 1
OUTPUT4S(1, y);
#elif WIDE
OUTPUT4F(1, y);
#else
OUTPUT1F(1, y);
#endif
#if STAGE == 2
INPUT4S(2, moments);
#define AFFINE_BINDING 3
#else
#define AFFINE_BINDING 2
#endif
#if AFFINE == 1
INPUT1F(AFFINE_BINDING, affine);
#elif AFFINE == 2
INPUT4F(AFFINE_BINDING, affine);
#endif

layout(constant_id = 10) const int LANES = 1;
layout(constant_id = 11) const int ROWS = 1;
layout(constant_id = 16) const int CENTER = 1;  // 0: the mean counts as 0
layout(constant_id = 17) const int FACTOR = 0;  // see factor_of
layout(constant_id = 18) const int NUMBER = 0;
#include "reduction/reduction_axes.glsl"

layout(push_constant) uniform P {
    AXES_MEMBERS;
    int parts, chunk;            // STAGE 1: parts of a row, items of a part; STAGE 2: items of a workgroup
    int spread, period, shifts;
    float inverse, share, epsilon;  // 1 / elements of a row; factor of its sum of squares
} p;

AXES_FUNCTIONS
#include "normalization/factor.glsl"

shared vec4 parts_of_rows[LANES > 1 ? LANES * ROWS : 1];

// True for the lanes of the item that are elements of its row.
bvec4 lanes_of(int at, int k) {
#if WIDE
    return ACROSS != 0 && PADDING_LANES != 0 ? within_channels(at) : bvec4(true);
#else
    return lessThan(4 * k + ivec4(0, 1, 2, 3), ivec4(p.extent));
#endif
}

// Place of the item, or places of its scalars.
#if WIDE
#define PLACE int
PLACE place(int base, int k) { return base + place_of(k); }
vec4 load(PLACE at) { return LOAD4(x, at); }
bvec4 lanes(PLACE at, int k) { return lanes_of(at, k); }
#else
#define PLACE ivec4
PLACE place(int base, int k) {
    int last = p.extent - 1;
    return base + ivec4(place_of(4 * k), place_of(min(4 * k + 1, last)), place_of(min(4 * k + 2, last)),
                        place_of(min(4 * k + 3, last)));
}
vec4 load(PLACE at) {
    return vec4(LOAD1(x, at.x), LOAD1(x, at.y), LOAD1(x, at.z), LOAD1(x, at.w));
}
bvec4 lanes(PLACE at, int k) { return lanes_of(at.x, k); }
#endif

// The sum over the lanes of a row, and with ACROSS over the components.
vec4 total_of(vec4 v) {
    if (LANES > 1) {
        int lane = row_lane();
        int at = row_of_group() * LANES;
        parts_of_rows[at + lane] = v;
        barrier();
        for (int half_ = LANES / 2; half_ > 0; half_ /= 2) {
            if (lane < half_) parts_of_rows[at + lane] += parts_of_rows[at + lane + half_];
            barrier();
        }
        v = parts_of_rows[at];
        barrier();
    }
    if (ACROSS != 0) v = vec4((v.x + v.y) + (v.z + v.w));
    return v;
}

#if STAGE != 2
// A long sum adds up sums of so many items: adding one item to what thousands made rounds it away.
const int BLOCK = 256;

// Sums over the items of a row from `first` on of `of`, where v is an item's distance from the mean.
#define SUM(name, of)                                          \
    vec4 name(vec4 mean, int base, int first, int end) {       \
        vec4 sum = vec4(0.0), block = vec4(0.0);               \
        int next = first + BLOCK * LANES;                      \
        for (int k = first; k < end; k += LANES) {             \
            PLACE at = place(base, k);                         \
            vec4 v = load(at) - mean;                          \
            if (k == next) {                                   \
                sum += block;                                  \
                block = vec4(0.0);                             \
                next += BLOCK * LANES;                         \
            }                                                  \
            block += mix(vec4(0.0), of, lanes(at, k));         \
        }                                                      \
        return total_of(sum + block);                          \
    }
SUM(sum_about, v)
SUM(squares_about, v * v)
#endif

#if STAGE != 1
#if AFFINE > 0
int number(int at) {
    int n = quotient(at, p.spread);
    return n - quotient(n, p.period) * p.period;
}
#endif

void write(PLACE at, int k, vec4 v) {
#if AFFINE == 2
    int n = NUMBER == 2 ? k : number(at);
    v = v * LOAD4(affine, n) + LOAD4(affine, p.shifts + n);
#elif AFFINE == 1
    ivec4 n;
#if WIDE
    if (NUMBER == 1) n = ivec4(number(at));
    else n = ivec4(number(4 * at), number(4 * at + 1), number(4 * at + 2), number(4 * at + 3));
#else
    if (NUMBER == 2) n = min(4 * k + ivec4(0, 1, 2, 3), ivec4(p.extent - 1));
    else n = ivec4(number(at.x), number(at.y), number(at.z), number(at.w));
#endif
    v *= vec4(LOAD1(affine, n.x), LOAD1(affine, n.y), LOAD1(affine, n.z), LOAD1(affine, n.w));
    n += p.shifts;
    v += vec4(LOAD1(affine, n.x), LOAD1(affine, n.y), LOAD1(affine, n.z), LOAD1(affine, n.w));
#endif
#if WIDE
    if (PADDING_LANES != 0) v = mix(vec4(0.0), v, within_channels(at));
    STORE4(y, at, v);
#else
    bvec4 within = lanes(at, k);
    STORE1(y, at.x, v.x);
    if (within.y) STORE1(y, at.y, v.y);
    if (within.z) STORE1(y, at.z, v.z);
    if (within.w) STORE1(y, at.w, v.w);
#endif
}
#endif

#if STAGE == 2
void main() {
    int total = p.rows * p.count;
    FOR_EACH_ITEM(i, total, p.chunk) {
        int row, k;
        divide_rest(i, p.count, row, k);
        PLACE at = place(row_base(row), k);
        vec4 v = (load(at) - LOAD4(moments, 2 * row)) * LOAD4(moments, 2 * row + 1);
        write(at, k, v);
    }
}
#else
void main() {
    int row = linear_group() * ROWS + row_of_group();
    bool inside = row < p.rows;
    int whole = min(row, p.rows - 1), first = 0, end = p.count;
#if STAGE == 1
    int part;
    divide_rest(whole, p.parts, whole, part);
    first = part * p.chunk;
    end = min(first + p.chunk, p.count);
#endif
    int base = row_base(whole);
    first += row_lane();

#if STAGE == 1
    vec4 count = vec4(0.0);
    for (int k = first; k < end; k += LANES)
        count += mix(vec4(0.0), vec4(1.0), lanes(place(base, k), k));
    count = total_of(count);
    vec4 mean = vec4(0.0);
    if (CENTER != 0) mean = sum_about(vec4(0.0), base, first, end) / max(count, 1.0);
    vec4 squares = squares_about(mean, base, first, end);
    if (!inside || row_lane() != 0) return;
    STORE4(y, 3 * row, mean);
    STORE4(y, 3 * row + 1, squares);
    STORE4(y, 3 * row + 2, count);
#else
    vec4 mean = vec4(0.0), factor = vec4(1.0);
    if (CENTER != 0) mean = sum_about(vec4(0.0), base, first, end) * p.inverse;
    if (FACTOR != 0) {
        vec4 squares = squares_about(mean, base, first, end);
        factor = factor_of(squares * p.share);
    }
    if (!inside) return;
    for (int k = first; k < end; k += LANES) {
        PLACE at = place(base, k);
        write(at, k, (load(at) - mean) * factor);
    }
#endif
}
#endif
