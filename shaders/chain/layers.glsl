// Means and fully connected layers of a workgroup of LANES lanes, for an image's vectors of channels.
//
// Before the include: specialization constants LANES and PIXEL_LANES (lanes that share the pixels of a
// vec4), push constants c4 (vec4s of channels) and pixels, tensors x [N, c4, pixels] and w, and in
// shared memory `vectors` and `partial` [LANES]. WITHOUT_LAYER: means alone; no w, no `partial`.

#if !WITHOUT_LAYER
#define ADD_ROW(a, b) \
    sum = fma(vec4(a.x), b[0], sum); \
    sum = fma(vec4(a.y), b[1], sum); \
    sum = fma(vec4(a.z), b[2], sum); \
    sum = fma(vec4(a.w), b[3], sum);
#define LOAD_ROW(b, at) \
    vec4 b[4]; \
    [[unroll]] for (int q_ = 0; q_ < 4; q_++) b[q_] = LOAD4(w, (at) + q_ * n4);

// The products of a vector in shared memory with column `column` of a matrix of k4 rows of vec4s that
// begins at `place` and is n4 vec4s wide: of every parts-th row from number `part` on.
vec4 products(int from, int k4, int n4, int place, int column, int part, int parts) {
    vec4 sum = vec4(0.0);
    int k = part;
    for (; k + parts < k4; k += 2 * parts) {
        LOAD_ROW(b, place + 4 * k * n4 + column)
        LOAD_ROW(c, place + 4 * (k + parts) * n4 + column)
        vec4 v = vectors[from + k], v_next = vectors[from + k + parts];
        ADD_ROW(v, b)
        ADD_ROW(v_next, c)
    }
    for (; k < k4; k += parts) {
        LOAD_ROW(b, place + 4 * k * n4 + column)
        vec4 v = vectors[from + k];
        ADD_ROW(v, b)
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

// The sums of columns base + 0... of a layer are in `partial`, by column.
#define SUM_COLUMNS(from, k4, n4, place, start, end) \
    int column = (start) + lane % width; \
    if (lane < width * parts && column < (end)) \
        partial[lane] = products(from, k4, n4, place, column, lane / width, parts); \
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
