// Means and fully connected layers of a workgroup of LANES lanes, for an image's vectors of channels.
//
// Before the include: specialization constants LANES, PIXEL_LANES (lanes that share the pixels of a vec4)
// and STEPS (vec4s of a vector that a lane multiplies in a round), push constants c4 (vec4s of channels)
// and pixels, tensors x [N, c4, pixels] and w, and in shared memory `vectors` and `partial` [LANES].
// WITHOUT_LAYER: means alone; no w, no `partial`.

#if !WITHOUT_LAYER
// Rounds of a matrix of k4 rows of vec4s.
int rounds_of(int k4) { return (k4 + STEPS - 1) / STEPS; }

// Zeros behind a vector of k4 vec4s, to the end of its last round: weights there are zeros, but what
// lies in shared memory may be a NaN.
void pad_vector(int from, int k4, int lane) {
    if (k4 + lane < rounds_of(k4) * STEPS) vectors[from + k4 + lane] = vec4(0.0);
}

// The products of a vector in shared memory with a column of a matrix, of every parts-th round from number
// `part` on. The matrix lies in panels of `row` columns, [panel][k4 padded][4][row] vec4s, from `place` on.
// All rows of a round are so near each other that their distance is in the instructions of loads.
vec4 products(int from, int k4, int row, int place, int column, int part, int parts) {
    int rounds = rounds_of(k4);
    int at = place + (column / row * rounds + part) * (STEPS * 4 * row) + column % row;
    vec4 sum = vec4(0.0);
    for (int r = part; r < rounds; r += parts) {
        vec4 a[STEPS], b[STEPS * 4];
        [[unroll]] for (int s = 0; s < STEPS; s++) {
            a[s] = vectors[from + r * STEPS + s];
            [[unroll]] for (int q = 0; q < 4; q++) b[4 * s + q] = LOAD4(w, at + (4 * s + q) * row);
        }
        [[unroll]] for (int s = 0; s < STEPS; s++)
            [[unroll]] for (int q = 0; q < 4; q++) sum = fma(vec4(a[s][q]), b[4 * s + q], sum);
        at += parts * (STEPS * 4 * row);
    }
    return sum;
}

// Adds up the partial sums of a column, `width` apart; the whole is at the first. All lanes come here.
void add_parts(int lane, int width, int parts) {
    barrier();
    for (int left = parts; left > 1;) {
        int kept = (left + 1) / 2;
        if (lane < (left - kept) * width) partial[lane] += partial[lane + kept * width];
        barrier();
        left = kept;
    }
}

// The sums of columns start + 0... of a layer are in `partial`, by column.
#define SUM_COLUMNS(from, k4, row, place, start, end) \
    int column = (start) + lane % width; \
    if (lane < width * parts && column < (end)) \
        partial[lane] = products(from, k4, row, place, column, lane / width, parts); \
    add_parts(lane, width, parts);

#endif

// Means of `width` vec4s of channels from number `first` on are in `vectors`.
void take_means(int image, int lane, int first, int width) {
    int count = width * PIXEL_LANES;
    int source = (image * p.c4 + first) * p.pixels;
    for (int i = lane; i < count; i += LANES) {
        int c = i / PIXEL_LANES;
        vec4 sum = vec4(0.0);
        int pixel_lane = i - c * PIXEL_LANES, pixel = pixel_lane;
        for (; pixel + 3 * PIXEL_LANES < p.pixels; pixel += 4 * PIXEL_LANES) {
            vec4 v[4];
            [[unroll]] for (int s = 0; s < 4; s++)
                v[s] = LOAD4(x, source + c * p.pixels + pixel + s * PIXEL_LANES);
            sum += (v[0] + v[1]) + (v[2] + v[3]);
        }
        for (; pixel < p.pixels; pixel += PIXEL_LANES) sum += LOAD4(x, source + c * p.pixels + pixel);
        vectors[pixel_lane * width + c] = sum;
    }
    if (PIXEL_LANES == 1) return;
    barrier();
    for (int left = PIXEL_LANES / 2; left > 0; left /= 2) {
        for (int i = lane; i < left * width; i += LANES) {
            vec4 sum = vectors[i] + vectors[i + left * width];
            vectors[i] = left == 1 ? sum / float(p.pixels) : sum;
        }
        barrier();
    }
}
