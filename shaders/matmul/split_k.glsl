// Sums of shared-memory tiles whose k several workgroups share out (split-K). Each of them writes its sums, in
// float32 whatever the precision; the one of a tile that is done last adds them up in the order of k, so that
// results do not hang on the order of the workgroups, and goes on with the end of the kernel.
//
// Include behind matmul/shared_memory_tiles.glsl; SPLIT_K_BINDING: of part_sums, behind which comes that of done.
// part_sums: [tile][part][ROWS * COLS][lane]; done: for each tile the number of its workgroups that are done.

layout(constant_id = 33) const int K_PARTS = 2;

layout(set = 0, binding = SPLIT_K_BINDING, std430) coherent buffer part_sums_block { vec4 part_sums[]; };
layout(set = 0, binding = SPLIT_K_BINDING + 1, std430) coherent buffer done_block { int done[]; };
#include "common/last_workgroup.glsl"

// vec4s of k of a part, in whole rounds of DEPTH; the last part has what is left.
int part_of_k(int steps) { return whole_part(whole_part(steps + DEPTH - 1, DEPTH) + K_PARTS - 1, K_PARTS) * DEPTH; }

// Parts whose sums are read before they are added up, so that a wave waits for all of them at once.
const int TOGETHER = ROWS * COLS >= 8 ? 1 : 8 / (ROWS * COLS) < K_PARTS ? 8 / (ROWS * COLS) : K_PARTS;

// True in the workgroup that goes on, with the sums of all parts of k. K_PARTS is a power of two.
bool has_all_sums(int tile, int part, int lane) {
    const int count = ROWS * COLS * LANES;
    int at = tile * K_PARTS * count + lane;
    [[unroll]] for (int i = 0; i < ROWS * COLS; i++) part_sums[at + part * count + i * LANES] = sums[i];
    if (!is_last_workgroup(tile, K_PARTS, lane)) return false;
    if (K_PARTS == 2) {  // the order of two does not matter, and a lane has its own ones still
        at += (1 - part) * count;
        [[unroll]] for (int i = 0; i < ROWS * COLS; i++) sums[i] += part_sums[at + i * LANES];
        return true;
    }
    [[unroll]] for (int i = 0; i < ROWS * COLS; i++) sums[i] = vec4(0.0);
    [[dont_unroll]] for (int other = 0; other < K_PARTS; other += TOGETHER) {
        vec4 read[TOGETHER * ROWS * COLS];
        [[unroll]] for (int j = 0; j < TOGETHER; j++) {
            [[unroll]] for (int i = 0; i < ROWS * COLS; i++)
                read[j * ROWS * COLS + i] = part_sums[at + j * count + i * LANES];
        }
        [[unroll]] for (int j = 0; j < TOGETHER; j++) {
            [[unroll]] for (int i = 0; i < ROWS * COLS; i++) sums[i] += read[j * ROWS * COLS + i];
        }
        at += TOGETHER * count;
    }
    return true;
}
