// Sums and maxima over the lanes of a row: LANES lanes share a row, ROWS rows share a workgroup of
// local_size_x = LANES * ROWS (CPU drivers run lanes of x side by side). All lanes of a workgroup
// must call them together. Before the include: specialization constants LANES and ROWS.

int row_lane() { return int(gl_LocalInvocationID.x) % LANES; }
int row_of_group() { return int(gl_LocalInvocationID.x) / LANES; }

shared float row_part[LANES > 1 ? LANES * ROWS : 1];

#define ROW_REDUCE(name, combine) \
    float name(float v) { \
        if (LANES == 1) return v; \
        int lane = row_lane(); \
        int at = row_of_group() * LANES; \
        row_part[at + lane] = v; \
        barrier(); \
        for (int half_ = LANES / 2; half_ > 0; half_ /= 2) { \
            if (lane < half_) \
                row_part[at + lane] = combine(row_part[at + lane], row_part[at + lane + half_]); \
            barrier(); \
        } \
        float total = row_part[at]; \
        barrier(); \
        return total; \
    }

float row_add_(float a, float b) { return a + b; }
ROW_REDUCE(row_sum, row_add_)
ROW_REDUCE(row_max, max)
