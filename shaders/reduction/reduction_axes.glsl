// Lines: sets of elements of a tensor that belong together, as vknn.lowering.kernels.reduction.reduction_axes sees them. A line
// has `count` items; an item is a vec4 (WIDE), or four scalars one after the other along the line.
// Up to three axes lead from line to line (kept), up to three from item to item (folded).
//
// Before the include: common/tensor.glsl, common/indexing.glsl, specialization constants LANES and
// ROWS, and the push constants, with LINES_MEMBERS among them.

layout(constant_id = 12) const int KEPT = 1;    // axes in use, the innermost ones
layout(constant_id = 13) const int FOLDED = 1;
layout(constant_id = 14) const int ACROSS = 0;  // the line runs through the lanes of a vec4
layout(constant_id = 15) const int TAIL = 0;    // C4: there are lanes behind the last channel

int row_lane() { return int(gl_LocalInvocationID.x) % LANES; }
int row_of_group() { return int(gl_LocalInvocationID.x) / LANES; }

// Sizes of the inner two axes and steps of all three, in vec4s (WIDE) or scalars; extent: scalars of
// a line (not WIDE); plane, blocks, channels: C4's, with TAIL.
#define LINES_MEMBERS \
    int lines, count, kept1, kept2, kept_step0, kept_step1, kept_step2; \
    int folded1, folded2, folded_step0, folded_step1, folded_step2; \
    int extent, plane, blocks, channels

#define LINES_FUNCTIONS \
    int line_base(int line) { \
        if (KEPT == 1) return line * p.kept_step2; \
        int rest, inner; \
        divide_rest(line, p.kept2, rest, inner); \
        int base = inner * p.kept_step2; \
        if (KEPT == 2) return base + rest * p.kept_step1; \
        int outer, middle; \
        divide_rest(rest, p.kept1, outer, middle); \
        return base + middle * p.kept_step1 + outer * p.kept_step0; \
    } \
    int place_of(int item) { \
        if (FOLDED == 1) return item * p.folded_step2; \
        int rest, inner; \
        divide_rest(item, p.folded2, rest, inner); \
        int base = inner * p.folded_step2; \
        if (FOLDED == 2) return base + rest * p.folded_step1; \
        int outer, middle; \
        divide_rest(rest, p.folded1, outer, middle); \
        return base + middle * p.folded_step1 + outer * p.folded_step0; \
    } \
    /* Which lanes of the vec4 at `at` are elements of a tensor in C4. */ \
    bvec4 within_channels(int at) { \
        int plane = quotient(at, p.plane); \
        int block = plane - quotient(plane, p.blocks) * p.blocks; \
        return lessThan(4 * block + ivec4(0, 1, 2, 3), ivec4(p.channels)); \
    }
