#version 450
#pragma vknn variants ACCESS=0,1,2 LOOP=0,1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define ELEM 1
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "quantized/inverse_root.glsl"

// Steps of IntegerLSTM. An entry is one batch entry. LOOP 1: a workgroup takes an entry through
// `count` steps, its state in shared memory. LOOP 0: one phase of one step, the state in a buffer;
// a workgroup takes as many rows of an entry as it has lanes.
//
// w holds, from 0 on: settings; at tables_at the tables of the functions, two numbers a word; at w_at
// and r_at the weights W and R, four of a row a word, words of the rows side by side; at bias_at both
// biases; P, norm and its bias; the projection as W, and its bias. The gates are f, g, o, i.
//
// The state: h [batch][outputs], c [batch][units], then of each entry the sums of the gates [rows]
// and what is projected [units].

INPUT1I(0, x);
INPUT1I(1, w);
INOUT1I(2, state);
OUTPUT1I(3, y);

layout(constant_id = 10) const int LANES = 1;
layout(constant_id = 11) const int PHASE = 0;  // LOOP 0: 0 sums, 1 cell, 2 output, 3 projection
layout(constant_id = 12) const int PEEPHOLES = 0;
layout(constant_id = 13) const int NORMALIZED = 0;
layout(constant_id = 14) const int PROJECTION = 0;
layout(constant_id = 15) const int COUPLED = 0;  // no weights of i: i = 1 - f
#if LOOP == 1
layout(constant_id = 16) const int SLOTS = 1;  // numbers of an entry's state
#endif

layout(push_constant) uniform P {
    int units;
    int rows;     // of W
    int inputs;
    int outputs;  // in h
    int x_step;   // from one step to the next, from one batch entry to the next
    int x_batch;
    int y_step;
    int y_batch;
    int batch;
    int blocks;   // LOOP 0: workgroups of an entry
    int first;    // the step to begin with
    int count;
    int tables_at;
    int w_at;
    int r_at;
    int bias_at;
    int p_at;
    int norm_at;
    int projection_at;
} p;

const int FORGET = 0, CANDIDATE = 1, OUTPUT = 2, INPUT = 3;
// Places of settings.
const int INPUT_Q = 0, INPUT_SHIFT = 4, STATE_Q = 8, STATE_SHIFT = 12, PEEPHOLE_Q = 16;
const int PEEPHOLE_SHIFT = 19, NORM_Q = 22, NORM_SHIFT = 26, GUARD = 30, HIDDEN = 34;
const int PROJECTED = 37, CELL_SHIFT = 40, CELL_CLIP = 41, PROJECTION_CLIP = 42;

#if LOOP == 1
shared int cells[SLOTS];
#define GET(i) cells[i]
#define PUT(i, v) cells[i] = (v)
#else
#define GET(i) state[i]
#define PUT(i, v) state[i] = (v)
#endif

int entry, x_at, y_at, h_at, c_at, sums_at, m_at;

int setting(int place) { return LOAD1(w, place); }

int times(int v, int q, int shift) { return fixed_multiply(ivec4(v), ivec4(q), ivec4(shift)).x; }

int within16(int v) { return clamp(v, -32768, 32767); }

int function_of(int table, int v) {
    int place = v + 32768;
    int word = LOAD1(w, p.tables_at + table * 32768 + (place >> 1));
    return bitfieldExtract(word, 16 * (place & 1), 16);
}

int divided_by_pot(int v, int exponent) { return rounding_shift(ivec4(v), ivec4(exponent)).x; }

int byte_of(int word, int k) { return bitfieldExtract(word, 8 * k, 8); }

// A row of weights with `rows` rows times `length` numbers of x, or of the state from `at` on.
int product_with_x(int row) {
    int sum = 0, words = (p.inputs + 3) >> 2;
    for (int k = 0; k < words; ++k) {
        int word = LOAD1(w, p.w_at + k * p.rows + row);
        [[unroll]] for (int j = 0; j < 4; ++j)
            sum += byte_of(word, j) * LOAD1(x, x_at + min(4 * k + j, p.inputs - 1));
    }
    return sum;
}

int product_with_state(int row, int weights_at, int rows, int at, int length) {
    int sum = 0, words = (length + 3) >> 2;
    for (int k = 0; k < words; ++k) {
        int word = LOAD1(w, weights_at + k * rows + row);
        [[unroll]] for (int j = 0; j < 4; ++j)
            sum += byte_of(word, j) * GET(at + min(4 * k + j, length - 1));
    }
    return sum;
}

// The sum of a gate with its peephole; `place` counts the gates f, o, i.
int with_peephole(int sum, int place, int unit, int cell) {
    int weight = LOAD1(w, p.p_at + (3 * entry + place) * p.units + unit);
    int q = setting(PEEPHOLE_Q + place), shift = setting(PEEPHOLE_SHIFT + place);
    return within16(times(weight * cell, q, shift) + sum);
}

void sum_row(int row) {
    if (row >= p.rows) return;
    int gate = row / p.units, unit = row - gate * p.units;
    int first = product_with_x(row) + LOAD1(w, p.bias_at + row);
    int second = product_with_state(row, p.r_at, p.rows, h_at, p.outputs);
    second += LOAD1(w, p.bias_at + p.rows + row);
    int sum = within16(times(first, setting(INPUT_Q + gate), setting(INPUT_SHIFT + gate)));
    sum = within16(sum + times(second, setting(STATE_Q + gate), setting(STATE_SHIFT + gate)));
    if (PEEPHOLES != 0 && gate == FORGET) sum = with_peephole(sum, 0, unit, GET(c_at + unit));
    if (PEEPHOLES != 0 && gate == INPUT) sum = with_peephole(sum, 2, unit, GET(c_at + unit));
    PUT(sums_at + row, sum);
}

// NORMALIZED: 1024 times the mean of a gate's sums, and one over their deviation.
int mean_of[4], root_of[4], root_shift_of[4];

void find_of_gate(int gate) {
    int sum = 0;
    uint low = 0u, high_ = 0u, carry, borrow, square_high, square_low, total_high, total_low;
    for (int k = 0; k < p.units; ++k) {
        int v = GET(sums_at + gate * p.units + k);
        sum += v;
        low = uaddCarry(low, uint(v * v), carry);
        high_ += carry;
    }
    int size = abs(sum), whole = size / p.units;
    int mean = whole * 1024 + ((size - whole * p.units) * 1024) / p.units;
    uint part = uint((1 << 20) / p.units);
    umulExtended(low, part, total_high, total_low);
    total_high += high_ * part;
    umulExtended(uint(mean), uint(mean), square_high, square_low);
    total_low = usubBorrow(total_low, square_low, borrow);
    int rest = int(total_high - square_high - borrow);
    int variance = rest < 0 ? 0 : int((uint(rest) << 12) | (total_low >> 20));
    if (variance < 1) variance = setting(GUARD + gate);
    mean_of[gate] = sum < 0 ? -mean : mean;
    inverse_root(variance, root_of[gate], root_shift_of[gate]);
}

// A gate's sum as its function sees it.
int seen(int gate, int unit) {
    int row = gate * p.units + unit;
    int v = GET(sums_at + row);
    if (NORMALIZED == 0) return v;
    v = times(1024 * v - mean_of[gate], root_of[gate], root_shift_of[gate]);
    v = v * LOAD1(w, p.norm_at + row) + LOAD1(w, p.norm_at + p.rows + row);
    // v / 1024, halves away from zero, without a sum that could be too large.
    int whole = v >> 10, rest = v & 1023;
    whole += rest > 512 || (rest == 512 && v > 0) ? 1 : 0;
    return within16(times(whole, setting(NORM_Q + gate), setting(NORM_SHIFT + gate)));
}

void new_cell(int unit) {
    if (unit >= p.units) return;
    int f = function_of(0, seen(FORGET, unit)), g = function_of(1, seen(CANDIDATE, unit));
    int i = COUPLED != 0 ? 32767 - f : function_of(0, seen(INPUT, unit));
    int c = divided_by_pot(f * GET(c_at + unit), 15);
    c = within16(c + divided_by_pot(i * g, setting(CELL_SHIFT)));
    int bound = setting(CELL_CLIP);
    if (bound > 0) c = clamp(c, -bound, bound);
    PUT(c_at + unit, c);
    int row = OUTPUT * p.units + unit;
    if (PEEPHOLES != 0) PUT(sums_at + row, with_peephole(GET(sums_at + row), 1, unit, c));
}

void emit_h(int place, int v) {
    PUT(h_at + place, v);
    STORE1(y, y_at + place, v);
}

void new_output(int unit) {
    if (unit >= p.units) return;
    int v = function_of(0, seen(OUTPUT, unit)) * function_of(2, GET(c_at + unit));
    v = times(v, setting(HIDDEN), setting(HIDDEN + 1)) + setting(HIDDEN + 2);
    v = clamp(v, -128, 127);
    if (PROJECTION != 0) PUT(m_at + unit, v);
    else emit_h(unit, v);
}

void project(int place) {
    if (place >= p.outputs) return;
    int v = product_with_state(place, p.projection_at, p.outputs, m_at, p.units);
    v += LOAD1(w, p.projection_at + ((p.units + 3) >> 2) * p.outputs + place);
    v = times(v, setting(PROJECTED), setting(PROJECTED + 1)) + setting(PROJECTED + 2);
    v = clamp(v, -128, 127);
    int bound = setting(PROJECTION_CLIP);
    if (bound > 0) v = clamp(v, -bound, bound);
    emit_h(place, v);
}

// Statistics of the sums for the phases of the cell and of the output.
void find_of_cell() {
    if (NORMALIZED == 0) return;
    find_of_gate(FORGET);
    find_of_gate(CANDIDATE);
    if (COUPLED == 0) find_of_gate(INPUT);
}

void find_of_output() {
    if (NORMALIZED != 0) find_of_gate(OUTPUT);
}

void main() {
    int lane = int(gl_LocalInvocationID.x);
#if LOOP == 1
    entry = linear_group();
    if (entry >= p.batch) return;
    h_at = 0;
    c_at = p.outputs;
    sums_at = c_at + p.units;
    m_at = sums_at + p.rows;
    int held = p.outputs + p.units, cells_at = p.batch * p.outputs + entry * p.units;
    for (int i = lane; i < held; i += LANES)
        PUT(i, i < p.outputs ? state[entry * p.outputs + i] : state[cells_at + i - p.outputs]);
    barrier();
    for (int step = p.first; step < p.first + p.count; ++step) {
        x_at = step * p.x_step + entry * p.x_batch;
        y_at = step * p.y_step + entry * p.y_batch;
        for (int base = 0; base < p.rows; base += LANES) sum_row(base + lane);
        barrier();
        find_of_cell();
        for (int base = 0; base < p.units; base += LANES) new_cell(base + lane);
        barrier();
        find_of_output();
        for (int base = 0; base < p.units; base += LANES) new_output(base + lane);
        barrier();
        if (PROJECTION != 0) {
            for (int base = 0; base < p.outputs; base += LANES) project(base + lane);
            barrier();
        }
    }
    for (int i = lane; i < held; i += LANES) {
        if (i < p.outputs) state[entry * p.outputs + i] = GET(i);
        else state[cells_at + i - p.outputs] = GET(i);
    }
#else
    entry = linear_group() / p.blocks;
    if (entry >= p.batch) return;
    h_at = entry * p.outputs;
    c_at = p.batch * p.outputs + entry * p.units;
    sums_at = p.batch * (p.outputs + p.units) + entry * p.rows;
    m_at = p.batch * (p.outputs + p.units + p.rows) + entry * p.units;
    x_at = p.first * p.x_step + entry * p.x_batch;
    y_at = p.first * p.y_step + entry * p.y_batch;
    int place = (linear_group() - entry * p.blocks) * LANES + lane;
    if (PHASE == 0) sum_row(place);
    if (PHASE == 1) {
        find_of_cell();
        new_cell(place);
    }
    if (PHASE == 2) {
        find_of_output();
        new_output(place);
    }
    if (PHASE == 3) project(place);
#endif
}
