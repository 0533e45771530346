// Rows of a tensor along any axes: the elements that are reduced together (ReductionAxes in
// vknn/lowering/kernels/reduction/reduction_axes.py). A row has `count` items;
// an item is a vec4 (WIDE), or four scalars one after the other along the row.
// Up to three axes lead from row to row (kept), up to three from item to item (reduced).
//
// Before the include: common/tensor.glsl, common/indexing.glsl, specialization constants LANES and
// ROWS, and the push constants, with AXES_MEMBERS among them.

layout(constant_id = 12) const int KEPT = 1;    // axes in use, the innermost ones
layout(constant_id = 13) const int REDUCED = 1;
layout(constant_id = 14) const int ACROSS = 0;  // the row runs through the lanes of a vec4
layout(constant_id = 15) const int PADDING_LANES = 0;  // C4: lanes behind the last channel are padding

int row_lane() { return int(gl_LocalInvocationID.x) % LANES; }
int row_of_group() { return int(gl_LocalInvocationID.x) / LANES; }

// Sizes of the inner two axes and steps of all three, in vec4s (WIDE) or scalars; extent: scalars of
// a row (not WIDE); plane, blocks, channels: C4's, with PADDING_LANES.
#define AXES_MEMBERS \
    int rows, count, kept1, kept2, kept_step0, kept_step1, kept_step2; \
    int reduced1, reduced2, reduced_step0, reduced_step1, reduced_step2; \
    int extent, plane, blocks, channels

#define AXES_FUNCTIONS \
    int row_base(int row) { \
        if (KEPT == 1) return row * p.kept_step2; \
        int rest, inner; \
        divide_rest(row, p.kept2, rest, inner); \
        int base = inner * p.kept_step2; \
        if (KEPT == 2) return base + rest * p.kept_step1; \
        int outer, middle; \
        divide_rest(rest, p.kept1, outer, middle); \
        return base + middle * p.kept_step1 + outer * p.kept_step0; \
    } \
    int place_of(int item) { \
        if (REDUCED == 1) return item * p.reduced_step2; \
        int rest, inner; \
        divide_rest(item, p.reduced2, rest, inner); \
        int base = inner * p.reduced_step2; \
        if (REDUCED == 2) return base + rest * p.reduced_step1; \
        int outer, middle; \
        divide_rest(rest, p.reduced1, outer, middle); \
        return base + middle * p.reduced_step1 + outer * p.reduced_step0; \
    } \
    /* True for the lanes of the vec4 at `at` that are no padding lanes of C4. */ \
    bvec4 within_channels(int at) { \
        int plane = quotient(at, p.plane); \
        int block = plane - quotient(plane, p.blocks) * p.blocks; \
        return lessThan(4 * block + ivec4(0, 1, 2, 3), ivec4(p.channels)); \
    }
