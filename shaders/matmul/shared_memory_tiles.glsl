// Shared-memory tiles of matrix products: the lanes of a workgroup load DEPTH vec4s of k of the tile's
// rows and columns into shared memory, then each of them multiplies its own ROWS x 4 COLS of them.
//
// rows_held: [row][DEPTH] vec4s along k, rows A_STRIDE apart. columns_held: [k][BLOCK_N] vec4s of
// columns, B_STRIDE apart. With an odd stride eight neighbouring lanes that access 16 bytes each in
// neighbouring rows use eight different groups of four banks; with an even one they do where they
// write along a row. Rows and columns of a lane are LANES_M and LANES_N apart, so that neighbouring
// lanes read neighbouring vec4s, or all the same one.
//
// HALF_SUMS: values are float16, multiplied and added up so, 4 DEPTH of them at a time.
// DOTS: values are float16, sums float32 (matmul/float_dots.glsl). columns_held: [k][4][BLOCK_N] vec4s along
// k, the 4 for the columns of a vec4.
// COOPERATIVE: values are float16; subgroups multiply them as cooperative matrices, sums are float32.

#if defined(HALF_SUMS) || defined(COOPERATIVE) || defined(DOTS)
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define FACTOR f16vec4
#else
#define FACTOR vec4
#endif

#include "common/quotients.glsl"

// What lanes keep in registers from a round of a loop to the next: words, since compilers keep numbers of 16
// bits one by one and join pairs of them each round.
#ifdef COOPERATIVE
#define WAITING uvec2
uvec2 waiting(f16vec4 v) { return uvec2(packFloat2x16(v.xy), packFloat2x16(v.zw)); }
f16vec4 arrived(uvec2 v) { return f16vec4(unpackFloat2x16(v.x), unpackFloat2x16(v.y)); }
#else
#define WAITING FACTOR
#define waiting(v) v
#define arrived(v) v
#endif

layout(constant_id = 10) const int ROWS = 4;
layout(constant_id = 11) const int COLS = 1;
layout(constant_id = 12) const int LANES_M = 8;
layout(constant_id = 13) const int LANES_N = 8;
layout(constant_id = 14) const int DEPTH = 4;
layout(constant_id = 15) const int A_STRIDE = 5;
layout(constant_id = 16) const int B_STRIDE = 8;

// 1: while lanes compute from shared memory, what it is to hold next is on its way to registers. 2: behind the
// last tile, too, of which it is that again: a few loads in place of a branch, at whose end compilers move what
// was read from register to register, and wait for it.
layout(constant_id = 19) const int AHEAD = 1;
// 1: k is a multiple of what shared memory holds of it; taps of a convolution begin with such a part.
layout(constant_id = 26) const int WHOLE = 0;

const int LANES = LANES_M * LANES_N;
const int BLOCK_M = ROWS * LANES_M;  // rows
const int BLOCK_N = COLS * LANES_N;  // vec4s of columns

#ifdef COOPERATIVE
// 1: columns are held as rows are, [column][DEPTH] vec4s along k, B_STRIDE apart: lanes have what they multiply
// beside each other. They lie in memory as with DOTS.
layout(constant_id = 27) const int COLUMNS_ALONG_K = 0;
// 1: subgroups load columns from memory, where all k of a round lie beside each other: [column][DEPTH] vec4s.
// Half as much goes through shared memory then. Only with WHOLE.
layout(constant_id = 28) const int COLUMNS_IN_MEMORY = 0;
#else
const int COLUMNS_ALONG_K = 0, COLUMNS_IN_MEMORY = 0;
#endif
const int COLUMN_VEC4S = COLUMNS_ALONG_K != 0 ? 4 * BLOCK_N * B_STRIDE : 4 * DEPTH * B_STRIDE;

shared FACTOR rows_held[BLOCK_M * A_STRIDE];
shared FACTOR columns_held[COLUMNS_IN_MEMORY != 0 ? 1 : COLUMN_VEC4S];

// Of a tile's vec4 number `own`: its row of vec4s of columns (with COLUMNS_ALONG_K: its column of a vec4), its
// vec4 of columns, and its place in columns_held. What these are for LANES * i and for a lane adds up to what
// they are for the sum, since of LANES and BLOCK_N one divides the other.
int column_row(int own) {
    return COLUMNS_ALONG_K != 0 ? 4 * whole_part(own, 4 * BLOCK_N) + rest(own, 4) : whole_part(own, BLOCK_N);
}
int column_vec4(int own) {
    return COLUMNS_ALONG_K != 0 ? whole_part(rest(own, 4 * BLOCK_N), 4) : rest(own, BLOCK_N);
}
int column_place(int own) {
    if (COLUMNS_ALONG_K != 0) return rest(own, 4 * BLOCK_N) * B_STRIDE + whole_part(own, 4 * BLOCK_N);
    return whole_part(own, BLOCK_N) * B_STRIDE + rest(own, BLOCK_N);
}

vec4 sums[ROWS * COLS];

// Of a lane's sums so many are stored a round of a loop, and those behind them move up: unrolled, the stores of
// large tiles are more code than all the rest, and with NVK more than instruction caches hold.
const int STORED = ROWS * COLS % 4 == 0 ? 4 : ROWS * COLS;
void next_sums() {
    [[unroll]] for (int i = 0; i + STORED < ROWS * COLS; i++) sums[i] = sums[i + STORED];
}

#ifdef DOTS
#include "matmul/float_dots.glsl"
#endif

#ifdef COOPERATIVE
#extension GL_KHR_shader_subgroup_basic : require
#include "matmul/cooperative.glsl"

layout(constant_id = 23) const int MATRICES_M = 2;  // of a subgroup
layout(constant_id = 24) const int MATRICES_N = 2;
const int SUBGROUPS_M = BLOCK_M / (MATRICES_M * MATRIX_M);
const int SUM_STRIDE = BLOCK_N + 1;

shared vec4 sums_held[BLOCK_M / MATRICES_M * SUM_STRIDE];

MATRIX_C products[MATRICES_M * MATRICES_N];
#ifdef COLUMNS_OF
const int MATRICES_K = 4 * DEPTH / MATRIX_K;
MATRIX_B columns_read[MATRICES_K * MATRICES_N];
// Where the halves of a round's columns begin where that has more bytes than the distance in an instruction of
// AMD's GPUs reaches. Each moves on by itself, so that compilers cannot make one of them of the other.
int half_at[2];
const int HALF_ROUND = MATRICES_K * BLOCK_N * MATRIX_K > 512 ? (MATRICES_K + 1) / 2 : MATRICES_K;
#endif
// Where a subgroup's rows and vec4s of columns begin. There may be more subgroups than have work, where
// they turn out smaller than the device says: these do the last ones' work again, for behind a branch sums and
// factors would be copied.
int own_row() { return rest(int(gl_SubgroupID), SUBGROUPS_M) * (MATRICES_M * MATRIX_M); }
int own_column() {
    int column = whole_part(int(gl_SubgroupID), SUBGROUPS_M) * (MATRICES_N * MATRIX_N / 4);
    return min(column, BLOCK_N - MATRICES_N * MATRIX_N / 4);
}
bool has_work() { return whole_part(int(gl_SubgroupID), SUBGROUPS_M) < 4 * BLOCK_N / (MATRICES_N * MATRIX_N); }

// `first`: where the tile's columns of the first round begin, a vec4 (COLUMNS_IN_MEMORY)
void begin_products(int first) {
    [[unroll]] for (int i = 0; i < MATRICES_M * MATRICES_N; i++) products[i] = filled(0.0);
#ifdef COLUMNS_OF
    half_at[0] = first + own_column() * MATRIX_K;
    half_at[1] = half_at[0] + HALF_ROUND * BLOCK_N * MATRIX_K;
#endif
}

#ifdef COLUMNS_OF
// The subgroup's columns of the next round.
void read_columns() {
    [[unroll]] for (int k = 0; k < MATRICES_K; k++) {
        int at = half_at[k / HALF_ROUND];
        [[unroll]] for (int j = 0; j < MATRICES_N; j++)
            columns_read[k * MATRICES_N + j] = load_constant_b(
                COLUMNS_OF[at + (k % HALF_ROUND * 4 * BLOCK_N + j * MATRIX_N) * (MATRIX_K / 4)], COLUMN_MAJOR,
                MATRIX_K / 4);
    }
    half_at[0] += 4 * DEPTH * BLOCK_N;
    half_at[1] += 4 * DEPTH * BLOCK_N;
}
#endif

// products += rows_held * columns_held
void multiply_held(int m, int n) {
    int row = own_row(), column = own_column();
    [[unroll]] for (int k = 0; k < 4 * DEPTH; k += MATRIX_K) {
        MATRIX_A av[MATRICES_M];
        [[unroll]] for (int i = 0; i < MATRICES_M; i++)
            av[i] = LOAD_A(rows_held[(row + i * MATRIX_M) * A_STRIDE + k / 4], A_STRIDE);
        [[unroll]] for (int j = 0; j < MATRICES_N; j++) {
            MATRIX_B bv;
#ifdef COLUMNS_OF
            if (COLUMNS_IN_MEMORY != 0) bv = columns_read[k / MATRIX_K * MATRICES_N + j];
            else
#endif
            {
                int place = column + j * MATRIX_N / 4;
                place = COLUMNS_ALONG_K != 0 ? 4 * place * B_STRIDE + k / 4 : k * B_STRIDE + place;
                bv = LOAD_B(columns_held[place], COLUMNS_ALONG_K, B_STRIDE);
            }
            [[unroll]] for (int i = 0; i < MATRICES_M; i++)
                products[i * MATRICES_N + j] = multiply_add(av[i], bv, products[i * MATRICES_N + j]);
        }
    }
}

// sums += products, handed out by way of shared memory: of each subgroup one row of matrices at a time.
void end_products(int m, int n) {
    int column = own_column();
    [[unroll]] for (int i = 0; i < MATRICES_M; i++) {
        if (i > 0) barrier();
        if (has_work()) {
            int row = rest(int(gl_SubgroupID), SUBGROUPS_M) * MATRIX_M;
            [[unroll]] for (int j = 0; j < MATRICES_N; j++)
                STORE_C(sums_held[row * SUM_STRIDE + column + j * MATRIX_N / 4],
                        products[i * MATRICES_N + j], SUM_STRIDE);
        }
        barrier();
        [[unroll]] for (int r = 0; r < ROWS; r++) {
            int row = m + r * LANES_M, matrix = whole_part(row, MATRIX_M);
            if (rest(matrix, MATRICES_M) != i) continue;
            int held = whole_part(matrix, MATRICES_M) * MATRIX_M + rest(row, MATRIX_M);
            [[unroll]] for (int j = 0; j < COLS; j++)
                sums[r * COLS + j] += sums_held[held * SUM_STRIDE + n + j * LANES_N];
        }
    }
}
#else
void begin_products(int first) {}
void end_products(int m, int n) {}

// sums += rows_held * columns_held for a lane at row `m` and vec4 of columns `n` of its workgroup
void multiply_held(int m, int n) {
#ifdef HALF_SUMS
    FACTOR partial[ROWS * COLS];
    [[unroll]] for (int i = 0; i < ROWS * COLS; i++) partial[i] = FACTOR(0.0);
#define PARTIAL partial
#else
#define PARTIAL sums
#endif
    [[unroll]] for (int k = 0; k < DEPTH; k++) {
        FACTOR av[ROWS];
        [[unroll]] for (int i = 0; i < ROWS; i++)
            av[i] = rows_held[(m + i * LANES_M) * A_STRIDE + k];
        [[unroll]] for (int q = 0; q < 4; q++) {
            [[unroll]] for (int j = 0; j < COLS; j++) {
                FACTOR bv = columns_held[(4 * k + q) * B_STRIDE + n + j * LANES_N];
                [[unroll]] for (int i = 0; i < ROWS; i++) {
#ifdef DOTS
                    sums[i * COLS + j][q] = dot_added(av[i], bv, sums[i * COLS + j][q]);
#else
                    PARTIAL[i * COLS + j] = fma(FACTOR(av[i][q]), bv, PARTIAL[i * COLS + j]);
#endif
                }
            }
        }
    }
#ifdef HALF_SUMS
    [[unroll]] for (int i = 0; i < ROWS * COLS; i++) sums[i] += vec4(partial[i]);
#endif
}
#endif
