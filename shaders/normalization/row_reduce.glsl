// Sums and maxima over the lanes of a row: local_size_x lanes share a row, local_size_y rows share a
// workgroup. All lanes of the workgroup must call them together.
// Before the include: layout constants LANES (local_size_x) and ROWS (local_size_y).

shared float row_part[LANES > 1 ? LANES * ROWS : 1];

#define ROW_REDUCE(name, combine) \
    float name(float v) { \
        if (LANES == 1) return v; \
        int lane = int(gl_LocalInvocationID.x); \
        int at = int(gl_LocalInvocationID.y) * LANES; \
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
