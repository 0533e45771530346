#version 450
#pragma vknn variants ACCESS=0,1,2 WIDE=0,1 MASKED=0,1
#pragma vknn variants ACCESS=0,1,2 WIDE=0,1 MASKED=0,1 HALF=1
#pragma vknn variants ACCESS=0,1,2 WIDE=1 MASKED=0,1 HALF=1 DOTS=1,2
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common/tensor.glsl"
#include "common/mathf.glsl"
#ifdef DOTS
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "matmul/float_dots.glsl"
#define FACTOR f16vec4
#else
#define FACTOR vec4
#define dot_added(a, b, sum) ((sum) + dot(a, b))
#endif

// y = softmax(scale * q k^T + mask) v for QUERIES queries of a head a workgroup. It walks over the keys,
// KEYS at a time, with the largest score and the sum of each row so far: what has been added up is
// scaled down when a larger score turns up (the online softmax of Milakov and Gimelshein, 2018), so
// that no score outlives its tile. WIDE 1: a head's widths are multiples of 4; 0: any.

#if WIDE == 1
INPUT4F(0, q);
INPUT4F(1, k);
INPUT4F(2, v);
OUTPUT4F(3, y);
#define READ(name, base, i, count) LOAD4(name, (base) + (i))
#else
INPUT1F(0, q);
INPUT1F(1, k);
INPUT1F(2, v);
OUTPUT1F(3, y);
#define READ1(name, base, i, count) mix(0.0, LOAD1(name, (base) + min(i, (count) - 1)), (i) < (count))
#define READ(name, base, i, count) \
    vec4(READ1(name, base, 4 * (i), count), READ1(name, base, 4 * (i) + 1, count), \
         READ1(name, base, 4 * (i) + 2, count), READ1(name, base, 4 * (i) + 3, count))
#endif
#if MASKED == 1
INPUT1F(4, mask);
#endif

const int LANES = 128;
const int QUERIES = 32;
const int KEYS = 32;
// The lanes over a tile of scores, and what each of them has of it.
const int LANES_K = 16, LANES_Q = LANES / LANES_K;
const int TILE_K = KEYS / LANES_K, TILE_Q = QUERIES / LANES_Q;
// The lanes over the output: LANES_V of them share a row, each with COLS vec4s of ROWS rows.
layout(constant_id = 10) const int LANES_V = 16;
layout(constant_id = 11) const int COLS = 1;
layout(constant_id = 12) const int ROWS = 4;  // QUERIES * LANES_V / LANES
layout(constant_id = 13) const int EMPTY_ZERO = 0;  // 1: a row of -inf alone gives 0, not NaN
layout(constant_id = 14) const int CHUNK = 8;       // vec4s of a head's width in shared memory at a time
layout(constant_id = 15) const int WHOLE = 0;       // 1: the head's width is a multiple of them
layout(constant_id = 16) const int ONE_CHUNK = 0;   // 1: it is no more than them: queries stay in shared memory
const int SHARERS = LANES / QUERIES;          // lanes that share the statistics of a row
const int PART = KEYS / SHARERS;              // scores of each of them, a multiple of 4

// Rows of v that are read before they are multiplied.
const int AT_ONCE = COLS == 1 ? 8 : COLS == 2 ? 4 : 1;

// acc += the products of COUNT scores, from number `key` of the tile on, and their rows of v.
#define ADD_VALUES(COUNT) \
    vec4 w[COUNT * COLS]; \
    [[unroll]] for (int t = 0; t < COUNT; t++) { \
        [[unroll]] for (int j = 0; j < COLS; j++) { \
            int col = min(col0 + j * LANES_V, p.value_width4 - 1); \
            w[t * COLS + j] = READ(v, v_base + (key0 + key + t) * p.v_row, col, p.value_width); \
        } \
    } \
    [[unroll]] for (int t = 0; t < COUNT; t++) { \
        [[unroll]] for (int i = 0; i < ROWS; i++) { \
            float e = scores[(row0 + i) * (KEYS + 1) + key + t]; \
            [[unroll]] for (int j = 0; j < COLS; j++) acc[i * COLS + j] += e * w[t * COLS + j]; \
        } \
    }

layout(push_constant) uniform P {
    int queries;
    int keys;
    int width4;        // vec4s of a row of q and k
    int value_width4;  // vec4s of a row of v and y
    int width;
    int value_width;
    int sharing;       // heads of q that read the same head of k and v
    float scale;
    int q_batch, q_head, q_row;
    int k_batch, k_head, k_row;
    int v_batch, v_head, v_row;
    int y_batch, y_head, y_row;
    int mask_batch, mask_head, mask_query, mask_key;
} p;

shared FACTOR q_part[QUERIES * (CHUNK + 1)];
shared FACTOR k_part[KEYS * (CHUNK + 1)];
shared float scores[QUERIES * (KEYS + 1)];
shared float part[LANES];
shared float largest[QUERIES];
shared float total[QUERIES];
shared float shrink[QUERIES];

// Part of a row of queries or keys: what a lane brings of each tile is read before any of it is held. Behind the
// last row that row is read again.
#define HOLD(name, COUNT, held, row0, rows, base, row_step) \
    FACTOR brought[COUNT * CHUNK / LANES]; \
    int d = d0 + lane % CHUNK, here = min(d, p.width4 - 1); \
    int last = (base) + (rows - 1) * (row_step), own = (base) + lane / CHUNK * (row_step); \
    [[unroll]] for (int i = 0; i < COUNT * CHUNK / LANES; i++) { \
        int at = min(own + (row0 + i * (LANES / CHUNK)) * (row_step), last); \
        brought[i] = FACTOR(READ(name, at, here, p.width)); \
    } \
    [[unroll]] for (int i = 0; i < COUNT * CHUNK / LANES; i++) { \
        FACTOR w = WHOLE != 0 || d < p.width4 ? brought[i] : FACTOR(0.0); \
        held[(i * (LANES / CHUNK) + lane / CHUNK) * (CHUNK + 1) + lane % CHUNK] = w; \
    }

void hold_queries(int lane, int query0, int base, int d0) {
    HOLD(q, QUERIES, q_part, query0, p.queries, base, p.q_row)
}

void hold_keys(int lane, int key0, int base, int d0) {
    HOLD(k, KEYS, k_part, key0, p.keys, base, p.k_row)
}

void main() {
    int lane = int(gl_LocalInvocationID.x);
    int query0 = int(gl_WorkGroupID.x) * QUERIES;
    int head = int(gl_WorkGroupID.y), batch = int(gl_WorkGroupID.z);
    int q_base = batch * p.q_batch + head * p.q_head;
    int k_base = batch * p.k_batch + head / p.sharing * p.k_head;
    int v_base = batch * p.v_batch + head / p.sharing * p.v_head;
    int tile_k = lane % LANES_K, tile_q = lane / LANES_K;
    int col0 = lane % LANES_V, row0 = lane / LANES_V * ROWS;
    int own_row = lane / SHARERS, own_part = lane % SHARERS * PART;

    vec4 acc[ROWS * COLS];
    [[unroll]] for (int i = 0; i < ROWS * COLS; i++) acc[i] = vec4(0.0);
    if (lane < QUERIES) {
        largest[lane] = -M_INF;
        total[lane] = 0.0;
    }

    if (ONE_CHUNK != 0) hold_queries(lane, query0, q_base, 0);
    for (int key0 = 0; key0 < p.keys; key0 += KEYS) {
        float s[TILE_Q * TILE_K];
        [[unroll]] for (int i = 0; i < TILE_Q * TILE_K; i++) s[i] = 0.0;
        for (int d0 = 0; d0 < p.width4; d0 += CHUNK) {
            if (ONE_CHUNK == 0) hold_queries(lane, query0, q_base, d0);
            hold_keys(lane, key0, k_base, d0);
            barrier();
            [[unroll]] for (int d = 0; d < CHUNK; d++) {
                FACTOR kv[TILE_K];
                [[unroll]] for (int j = 0; j < TILE_K; j++)
                    kv[j] = k_part[(tile_k + j * LANES_K) * (CHUNK + 1) + d];
                [[unroll]] for (int i = 0; i < TILE_Q; i++) {
                    FACTOR qv = q_part[(tile_q + i * LANES_Q) * (CHUNK + 1) + d];
                    [[unroll]] for (int j = 0; j < TILE_K; j++)
                        s[i * TILE_K + j] = dot_added(qv, kv[j], s[i * TILE_K + j]);
                }
            }
            barrier();
        }
        [[unroll]] for (int i = 0; i < TILE_Q; i++) {
            [[unroll]] for (int j = 0; j < TILE_K; j++) {
                int row = tile_q + i * LANES_Q, col = tile_k + j * LANES_K;
                float score = s[i * TILE_K + j] * p.scale;
#if MASKED == 1
                score += LOAD1(mask, batch * p.mask_batch + head * p.mask_head
                    + min(query0 + row, p.queries - 1) * p.mask_query
                    + min(key0 + col, p.keys - 1) * p.mask_key);
#endif
                scores[row * (KEYS + 1) + col] = key0 + col < p.keys ? score : -M_INF;
            }
        }
        barrier();

        float most = -M_INF;
        [[unroll]] for (int i = 0; i < PART; i++)
            most = max(most, scores[own_row * (KEYS + 1) + own_part + i]);
        part[lane] = most;
        float before = largest[own_row];
        barrier();
        most = before;
        [[unroll]] for (int i = 0; i < SHARERS; i++) most = max(most, part[own_row * SHARERS + i]);
        // Nothing but -inf so far: any finite number will do to compare with.
        float against = most == -M_INF ? 0.0 : most;
        vec4 sum4 = vec4(0.0);
        [[unroll]] for (int i = 0; i < PART; i += 4) {
            int at = own_row * (KEYS + 1) + own_part + i;
            vec4 e = m_exp(vec4(scores[at], scores[at + 1], scores[at + 2], scores[at + 3]) - against);
            scores[at] = e.x;
            scores[at + 1] = e.y;
            scores[at + 2] = e.z;
            scores[at + 3] = e.w;
            sum4 += e;
        }
        barrier();
        part[lane] = (sum4.x + sum4.y) + (sum4.z + sum4.w);
        barrier();
        if (lane % SHARERS == 0) {
            float sum = 0.0;
            [[unroll]] for (int i = 0; i < SHARERS; i++) sum += part[lane + i];
            float factor = m_exp(vec4(before - against)).x;
            largest[own_row] = most;
            shrink[own_row] = factor;
            total[own_row] = total[own_row] * factor + sum;
        }
        barrier();

        [[unroll]] for (int i = 0; i < ROWS; i++) {
            float factor = shrink[row0 + i];
            [[unroll]] for (int j = 0; j < COLS; j++) acc[i * COLS + j] *= factor;
        }
        int here = min(KEYS, p.keys - key0);
        int key = 0;
        for (; key + AT_ONCE <= here; key += AT_ONCE) { ADD_VALUES(AT_ONCE) }
        if (AT_ONCE > 4) {
            if (key + 4 <= here) {
                ADD_VALUES(4)
                key += 4;
            }
        }
        if (AT_ONCE > 1) {
            for (; key < here; key++) { ADD_VALUES(1) }
        }
    }

    int y_base = batch * p.y_batch + head * p.y_head;
    [[unroll]] for (int i = 0; i < ROWS; i++) {
        int row = query0 + row0 + i;
        float sum = total[row0 + i];
        if (EMPTY_ZERO != 0 && sum == 0.0) sum = 1.0;
        [[unroll]] for (int j = 0; j < COLS; j++) {
            int col = col0 + j * LANES_V;
            vec4 w = acc[i * COLS + j] / sum;
            if (row < p.queries && col < p.value_width4) {
#if WIDE == 1
                STORE4(y, y_base + row * p.y_row + col, w);
#else
                [[unroll]] for (int c = 0; c < 4; c++) {
                    if (4 * col + c < p.value_width) STORE1(y, y_base + row * p.y_row + 4 * col + c, w[c]);
                }
#endif
            }
        }
    }
}
