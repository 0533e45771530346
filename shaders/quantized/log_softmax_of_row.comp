#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "quantized/log_softmax.glsl"

// QuantizedLogSoftmax: the lanes of a workgroup share a row. They look up its terms side by side, into
// shared memory; then each of them adds up all terms in the order of the row, as the reference does.

INPUT1I(0, x);
INPUT1S(1, table);
OUTPUT1I(2, y);

layout(constant_id = 11) const int LANES = 64;
const int ROWS = 1;
#include "normalization/row_reduce.glsl"

layout(push_constant) uniform P {
    int rows, width;
    float scale, step_in;
    int zero, low, high;
} p;

// vec4s of terms of a lane, and of all lanes
const int OWN = 4, HELD = OWN * LANES;
shared vec4 held[HELD];

// Entry of the table for element `i`, 0 behind the end of the row.
float term(int i, int base, int largest) {
    int code = LOAD1(x, base + min(i, p.width - 1));
    float found = LOAD1(table, 255 - (largest - code));
    return i < p.width ? found : 0.0;
}

void hold_terms(int first, int base, int largest) {
    [[unroll]] for (int k = 0; k < OWN; k++) {
        int at = k * LANES + row_lane(), i = first + 4 * at;
        held[at] = vec4(term(i, base, largest), term(i + 1, base, largest), term(i + 2, base, largest),
                        term(i + 3, base, largest));
    }
}

// The sum of the terms; zeros behind the last one leave it as it is.
float total(int base, int largest) {
    precise float sum = 0.0;
    for (int first = 0; first < p.width; first += 4 * HELD) {
        hold_terms(first, base, largest);
        barrier();
        int end = min(HELD, (p.width - first + 3) / 4);
        [[dont_unroll]] for (int j = 0; j < end; j += OWN) {
            vec4 next[OWN];
            [[unroll]] for (int k = 0; k < OWN; k++) next[k] = held[j + k];
            [[unroll]] for (int k = 0; k < OWN; k++) {
                sum = sum + next[k].x;
                sum = sum + next[k].y;
                sum = sum + next[k].z;
                sum = sum + next[k].w;
            }
        }
        barrier();
    }
    return sum;
}

void main() {
    int row = linear_group();
    bool inside = row < p.rows;
    int base = min(row, p.rows - 1) * p.width, largest = LOAD1(x, base);
    for (int i = row_lane(); i < p.width; i += LANES) largest = max(largest, LOAD1(x, base + i));
    largest = int(row_max(float(largest)));
    float sum = total(base, largest);
    if (!inside) return;
    Softmax s = softmax_of(sum, largest, p.scale, p.step_in);
    for (int i = row_lane(); i < p.width; i += LANES) {
        int whole = logarithm_of(LOAD1(x, base + i), s);
        STORE1(y, base + i, clamp(whole + p.zero, p.low, p.high));
    }
}
