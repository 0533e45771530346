#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// The gate of a squeeze-and-excitation block: y = f(B g(A mean(x) + a) + b), for each image. A
// workgroup computes the whole hidden layer and `columns` vec4s of y; its lanes share the columns of
// a layer, and where these are fewer its rows as well.
//
// x [N, c4, pixels] and y [N, m4] in C4. w: A [c4][4][hidden4] vec4s, a [hidden4], B
// [hidden4][4][m4], b [m4], the 4 for the lanes of an input vec4.
#include "common/tensor.glsl"
#include "common/grid.glsl"

INPUT4(0, x);
INPUT4F(1, w);
OUTPUT4(2, y);
#define EPILOGUE_BINDING 3
#define EPILOGUE_OPERANDS 0
#include "common/epilogue.glsl"

layout(constant_id = 10) const int LANES = 64;       // local_size_x
layout(constant_id = 11) const int INPUTS = 64;      // room for c4 * PIXEL_LANES vec4s
layout(constant_id = 12) const int HIDDEN = 64;      // room for hidden4 vec4s
layout(constant_id = 13) const int PIXEL_LANES = 1;  // lanes that share the pixels of a vec4

layout(push_constant) uniform P {
    int c4, hidden4, hidden;  // vec4s of channels; vec4s and elements of the hidden layer
    int m4, channels;         // of y
    int pixels, columns;
} p;

shared vec4 vectors[INPUTS + HIDDEN];
shared vec4 partial[LANES];

// The first three steps of the epilogue are g, the others f.
vec4 g(vec4 v) {
    vec4 p, q;
    EPILOGUE_STEP(0)
    EPILOGUE_STEP(1)
    EPILOGUE_STEP(2)
    return v;
}

vec4 f(vec4 v) {
    vec4 p, q;
    EPILOGUE_STEP(3)
    EPILOGUE_STEP(4)
    EPILOGUE_STEP(5)
    return v;
}

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

void take_means(int image, int lane) {
    int count = p.c4 * PIXEL_LANES;
    int source = image * p.c4 * p.pixels;
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
        vectors[pixel_lane * p.c4 + c] = sum;
    }
    if (PIXEL_LANES == 1) return;
    barrier();
    for (int left = PIXEL_LANES / 2; left > 0; left /= 2) {
        for (int i = lane; i < left * p.c4; i += LANES) {
            vec4 sum = vectors[i] + vectors[i + left * p.c4];
            vectors[i] = left == 1 ? sum / float(p.pixels) : sum;
        }
        barrier();
    }
}

void main() {
    int lane = int(gl_LocalInvocationID.x);
    int image = int(gl_WorkGroupID.y);
    take_means(image, lane);
    barrier();

    int width = min(p.hidden4, LANES);
    int parts = LANES / width;
    int bias = 4 * p.c4 * p.hidden4;
    for (int base = 0; base < p.hidden4; base += width) {
        SUM_COLUMNS(0, p.c4, p.hidden4, 0, base, p.hidden4)
        if (lane < width && column < p.hidden4) {
            vec4 v = g(partial[lane] + LOAD4(w, bias + column));
            vectors[INPUTS + column] = zero_padding_lanes(v, column, p.hidden);
        }
        barrier();
    }

    int second = bias + p.hidden4;
    int first_column = int(gl_WorkGroupID.x) * p.columns;
    int end = min(first_column + p.columns, p.m4);
    width = min(p.columns, LANES);
    parts = LANES / width;
    bias = second + 4 * p.hidden4 * p.m4;
    for (int base = first_column; base < end; base += width) {
        SUM_COLUMNS(INPUTS, p.hidden4, p.m4, second, base, end)
        if (lane < width && column < end) {
            vec4 v = f(partial[lane] + LOAD4(w, bias + column));
            STORE4(y, image * p.m4 + column, zero_padding_lanes(v, column, p.channels));
        }
        barrier();
    }
}
