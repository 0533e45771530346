// Rows of a product normalised as LayerNormalization does, in the same dispatch: the workgroup of a block of
// rows that is done last reads back what all of them wrote. Nobody waits for another, so that any order of
// the workgroups will do. It writes y = (c - mean) / sqrt(variance + epsilon) * scale + bias, the mean first,
// then the variance, as normalization/layer_norm.comp has them.
//
// Before the include: c declared by COHERENT4 (below), LANES (a power of two), NORMALIZED_BINDING. Bindings
// from there on: y; affine, vec4s of scale, then as many of bias; done, for each block of rows the number of
// workgroups that are done, 0 at first. Blocks of rows are numbered by gl_WorkGroupID.x, their parts by y.

layout(constant_id = 30) const int NORM_LANES = 64;  // lanes of a row, a power of two
layout(constant_id = 31) const int NORM_HELD = 4;    // vec4s of a row that a lane has
layout(constant_id = 32) const float NORM_EPSILON = 1e-5;
const int NORM_ROWS = LANES / NORM_LANES;            // rows at a time

OUTPUT4F(NORMALIZED_BINDING, y);
INPUT4F(NORMALIZED_BINDING + 1, affine);
coherent INOUT1I(NORMALIZED_BINDING + 2, done);

#define LANES NORM_LANES
#define ROWS NORM_ROWS
#include "normalization/row_reduce.glsl"
#undef LANES
#undef ROWS

#include "common/last_workgroup.glsl"

// A lane's vec4 number i of a row; of those behind the row's end, which are a lane's last, the row's last.
int column_of(int i, int own, int n4) {
    int column = own + i * NORM_LANES;
    return i < NORM_HELD - 1 ? column : min(column, n4 - 1);
}

float total_of(vec4 v) { return (v.x + v.y) + (v.z + v.w); }

// All lanes of a workgroup come here when they have written their part of rows m0 + 0...height - 1 of c, of
// which there are `m`, each of n4 vec4s that follow one another.
void normalize_rows(int lane, int m0, int height, int m, int n4) {
    if (!is_last_workgroup(int(gl_WorkGroupID.x), int(gl_NumWorkGroups.y), lane)) return;
    float inverse = 0.25 / float(n4);
    int own = row_lane(), last = own + (NORM_HELD - 1) * NORM_LANES;
    // As often as the tile has it: compilers would have several rounds' registers beside each other.
    [[dont_unroll]] for (int first = 0; first < height; first += NORM_ROWS) {
        int row = m0 + first + row_of_group();
        int base = min(row, m - 1) * n4;
        vec4 v[NORM_HELD];
        [[unroll]] for (int i = 0; i < NORM_HELD; i++)
            v[i] = READ_BACK4(c, base + column_of(i, own, n4));
        vec4 sum = vec4(0.0);
        [[unroll]] for (int i = 0; i < NORM_HELD - 1; i++) sum += v[i];
        if (last < n4) sum += v[NORM_HELD - 1];
        float mean = row_sum(total_of(sum)) * inverse;
        vec4 squares = vec4(0.0);
        [[unroll]] for (int i = 0; i < NORM_HELD; i++) v[i] -= mean;
        [[unroll]] for (int i = 0; i < NORM_HELD - 1; i++) squares += v[i] * v[i];
        if (last < n4) squares += v[NORM_HELD - 1] * v[NORM_HELD - 1];
        float factor = 1.0 / sqrt(row_sum(total_of(squares)) * inverse + NORM_EPSILON);
        [[unroll]] for (int i = 0; i < NORM_HELD; i++) {
            int column = column_of(i, own, n4);
            v[i] = v[i] * factor * LOAD4(affine, column) + LOAD4(affine, n4 + column);
        }
        if (first + row_of_group() < height && row < m) {
            [[unroll]] for (int i = 0; i < NORM_HELD - 1; i++) STORE4(y, base + column_of(i, own, n4), v[i]);
            if (last < n4) STORE4(y, base + last, v[NORM_HELD - 1]);
        }
    }
}
