#version 450
#pragma vknn variants ACCESS=0,1,2 LOOP=0,1
#pragma vknn variants ACCESS=0,1,2 LOOP=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "recurrent/cell.glsl"
#include "quantized/dynamic_steps.glsl"

// Steps of RNN, LSTM and GRU. An entry is one batch entry in one direction. LOOP 1: a workgroup takes
// an entry through `count` steps, its state in shared memory. LOOP 0: one phase of one step, the
// state in a buffer; a workgroup takes LANES_X vec4s of units of an entry.
//
// x holds the products with the input, gate by gate; w the weights that multiply the state:
//   R[4 h4][gates][units4], then peepholes of i, o, f or the bias of R in n [units4] each, then norm
//   and the bias of the gates [4][units4] each, then the projection [4 units4][h4] and its bias [h4].
// The state of an entry, in vec4s: h of even steps, h of odd steps [h4], c, m, z [units4]; the
// next phase multiplies m. NORMALIZED: then the sums of i, o, f, g [units4]. Lanes behind the last
// unit are zero.

INPUT4S(0, x);
INPUT4F(1, w);
INOUT4S(2, state);
OUTPUT1F(3, y);

// LANES_X lanes along the units, LANES_Y along what is added up.
layout(constant_id = 10) const int LANES_X = 1;
layout(constant_id = 11) const int LANES_Y = 1;
layout(constant_id = 12) const int CELL = 0;   // 0 RNN, 1 LSTM, 2 GRU, 3 GRU with linear_before_reset
// LOOP 0: 0 gates, 1 n of a GRU, 2 projection; of a normalized LSTM: 0 sums, 3 cell, 4 output
layout(constant_id = 13) const int PHASE = 0;
layout(constant_id = 14) const int PROJECTION = 0;
layout(constant_id = 15) const int PEEPHOLES = 0;
layout(constant_id = 16) const int COUPLED = 0;  // f = 1 - i
layout(constant_id = 17) const int ROUNDED = 0;  // rounding of the state before R multiplies it
#if LOOP == 1
layout(constant_id = 18) const int SLOTS = 1;  // p.slots
#endif

layout(constant_id = 19) const int NORMALIZED = 0;
layout(constant_id = 20) const int PROJECTION_ROUNDED = 0;
layout(constant_id = 21) const int OF_CANDIDATE = 0;  // h is o g, not o act(c)
layout(constant_id = 44) const float EPSILON = 0.0;  // of NORMALIZED

layout(push_constant) uniform P {
    int units;
    int units4;
    int outputs;  // in h
    int h4;
    int x_step;   // vec4s from one step to the next, from one batch entry to the next
    int x_batch;
    int y_step;   // scalars likewise, and from one direction to the next
    int y_batch;
    int y_direction;
    int w_direction;
    int entries;
    int batch;
    int blocks;   // LOOP 0: workgroups of an entry
    int steps;
    int first;    // the step to begin with
    int count;
    int reverse;  // 0 forward, 1 reverse, 2 every second entry's direction is reverse
    int slots;    // vec4s in the state of an entry
    int fresh;    // LOOP 1: the state is zero, not in the buffer
} p;

const int GATES = CELL == 0 ? 1 : CELL == 1 ? 4 : 3;
const int AT_ONCE = CELL == 2 ? 2 : GATES;  // gates of the first phase

#if LOOP == 1
shared vec4 cells[SLOTS];
#define GET(i) cells[i]
#define PUT(i, v) cells[i] = (v)
#else
int state_at;
#define GET(i) state[state_at + (i)]
#define PUT(i, v) state[state_at + (i)] = (v)
#endif

shared vec4 partial[LANES_Y > 1 ? LANES_X * LANES_Y * AT_ONCE : 1];

int direction, w_at, x_at, y_at, h_old, h_new, c_at, m_at, z_at, sums_at;
vec4 sums[4];

Steps steps_of_vector(int vector, int count, int rounding) {
    vec4 low = vec4(0.0), high = vec4(0.0);
    for (int k = 0; k < count; ++k) {
        vec4 v = without_nan(GET(vector + k));
        low = min(low, v);
        high = max(high, v);
    }
    float least = min(min(low.x, low.y), min(low.z, low.w));
    return steps_of(least, max(max(high.x, high.y), max(high.z, high.w)), rounding);
}

// sums[g] = the state's vec4s [vector, vector + count) times the columns from w[at + g * apart] on, rows
// `row` apart. Every lane of the workgroup calls it; the sums are those of the first LANES_Y lanes.
#define PRODUCT(name, COUNT, ROUND) \
    void name(int vector, int count, int at, int row, int apart) { \
        int part = int(gl_LocalInvocationID.y); \
        Steps steps = Steps(1.0, 1.0, 0.0, 0.0, 0.0); \
        if (ROUND != 0) steps = steps_of_vector(vector, count, ROUND); \
        [[unroll]] for (int g = 0; g < COUNT; ++g) sums[g] = vec4(0.0); \
        for (int k = part; k < count; k += LANES_Y) { \
            vec4 v = GET(vector + k); \
            if (ROUND != 0) v = in_steps(v, steps); \
            int from = at + 4 * k * row; \
            [[unroll]] for (int q = 0; q < 4; ++q) { \
                [[unroll]] for (int g = 0; g < COUNT; ++g) \
                    sums[g] = fma(vec4(v[q]), LOAD4(w, from + q * row + g * apart), sums[g]); \
            } \
        } \
        if (LANES_Y > 1) { \
            int place = int(gl_LocalInvocationID.x) * COUNT; \
            barrier(); \
            [[unroll]] for (int g = 0; g < COUNT; ++g) \
                partial[part * LANES_X * COUNT + place + g] = sums[g]; \
            barrier(); \
            for (int other = 1; other < LANES_Y; ++other) { \
                [[unroll]] for (int g = 0; g < COUNT; ++g) \
                    if (part == 0) sums[g] += partial[other * LANES_X * COUNT + place + g]; \
            } \
        } \
        if (ROUND != 0) { \
            [[unroll]] for (int g = 0; g < COUNT; ++g) sums[g] *= steps.size; \
        } \
    }

PRODUCT(gate_sums, AT_ONCE, ROUNDED)
PRODUCT(new_sums, 1, ROUNDED)
PRODUCT(projected_sums, 1, PROJECTION_ROUNDED)

void emit_h(int j, vec4 v) {
    int last = p.outputs - 4 * j, to = y_at + 4 * j;
    PUT(h_new + j, zero_padding_lanes(v, j, p.outputs));
    STORE1(y, to, v.x);
    if (last > 1) STORE1(y, to + 1, v.y);
    if (last > 2) STORE1(y, to + 2, v.z);
    if (last > 3) STORE1(y, to + 3, v.w);
}

vec4 of_input(int gate, int j) { return LOAD4(x, x_at + gate * p.units4 + j); }

// A row of w behind R.
vec4 extra(int row, int j) { return LOAD4(w, w_at + (4 * p.h4 * GATES + row) * p.units4 + j); }

// The new cell of the sums of the gates.
vec4 lstm_cell(int j, vec4 i, vec4 f, vec4 g, vec4 before) {
    i = gate_f(i);
    f = COUPLED != 0 ? 1.0 - i : gate_f(f);
    vec4 c = f * before + i * g;
    if ((BOUNDED & 2) != 0) c = bounded_by(c, -CELL_CLIP, CELL_CLIP);
    return zero_padding_lanes(c, j, p.units);
}

void lstm_out(int j, vec4 o, vec4 c, vec4 g) {
    vec4 m = gate_f(o) * (OF_CANDIDATE != 0 ? g : activation_h(c));
    if (PROJECTION != 0) PUT(m_at + j, zero_padding_lanes(m, j, p.units));
    else emit_h(j, m);
}

void lstm(int j) {
    vec4 before = GET(c_at + j);
    vec4 i = of_input(0, j) + sums[0], o = of_input(1, j) + sums[1];
    vec4 f = COUPLED != 0 ? vec4(0.0) : of_input(2, j) + sums[2], g = of_input(3, j) + sums[3];
    if (PEEPHOLES != 0) {
        i += extra(0, j) * before;
        f += extra(2, j) * before;
    }
    if (NORMALIZED != 0) {
        PUT(sums_at + j, i);
        PUT(sums_at + p.units4 + j, o);
        PUT(sums_at + 2 * p.units4 + j, f);
        PUT(sums_at + 3 * p.units4 + j, g);
    } else {
        g = gate_g(g);
        vec4 c = lstm_cell(j, i, f, g, before);
        if (PEEPHOLES != 0) o += extra(1, j) * c;
        PUT(c_at + j, c);
        lstm_out(j, o, c, g);
    }
}

// NORMALIZED: the mean of a gate's sums, and 1 over their standard deviation.
vec2 of_gate[4];

void find_of_gate(int gate) {
    int from = sums_at + gate * p.units4;
    float units = float(p.units);
    vec4 sum = vec4(0.0), squares = vec4(0.0);
    for (int k = 0; k < p.units4; ++k) sum += GET(from + k);
    float mean = dot(sum, vec4(1.0)) / units;
    for (int k = 0; k < p.units4; ++k) {
        vec4 rest = zero_padding_lanes(GET(from + k) - mean, k, p.units);
        squares = fma(rest, rest, squares);
    }
    of_gate[gate] = vec2(mean, inversesqrt(dot(squares, vec4(1.0)) / units + EPSILON));
}

vec4 normal(int gate, int j) {
    int row = (PEEPHOLES != 0 ? 3 : 0) + gate;
    vec4 v = (GET(sums_at + gate * p.units4 + j) - of_gate[gate].x) * of_gate[gate].y;
    return v * extra(row, j) + extra(row + 4, j);
}

void normal_cell(int j) {
    if (j >= p.units4 || gl_LocalInvocationID.y > 0) return;
    vec4 f = COUPLED != 0 ? vec4(0.0) : normal(2, j);
    vec4 c = lstm_cell(j, normal(0, j), f, gate_g(normal(3, j)), GET(c_at + j));
    if (PEEPHOLES != 0) {
        vec4 o = GET(sums_at + p.units4 + j) + extra(1, j) * c;
        PUT(sums_at + p.units4 + j, o);
    }
    PUT(c_at + j, c);
}

void normal_out(int j) {
    if (j >= p.units4 || gl_LocalInvocationID.y > 0) return;
    vec4 g = OF_CANDIDATE != 0 ? gate_g(normal(3, j)) : vec4(0.0);
    lstm_out(j, normal(1, j), GET(c_at + j), g);
}

void gates(int lane) {
    int j = min(lane, p.units4 - 1);
    gate_sums(h_old, p.h4, w_at + j, GATES * p.units4, p.units4);
    if (lane >= p.units4 || gl_LocalInvocationID.y > 0) return;
    if (CELL == 0) emit_h(j, gate_g(of_input(0, j) + sums[0]));
    if (CELL == 1) lstm(j);
    if (CELL >= 2) {
        vec4 z = gate_f(of_input(0, j) + sums[0]), r = gate_f(of_input(1, j) + sums[1]);
        vec4 h = GET(h_old + j);
        if (CELL == 2) {
            PUT(z_at + j, z);
            PUT(m_at + j, zero_padding_lanes(r * h, j, p.units));
        } else {
            vec4 n = gate_g(of_input(2, j) + r * (sums[2] + extra(0, j)));
            emit_h(j, (1.0 - z) * n + z * h);
        }
    }
}

void candidate(int lane) {
    int j = min(lane, p.units4 - 1);
    new_sums(m_at, p.h4, w_at + 2 * p.units4 + j, GATES * p.units4, 0);
    if (lane >= p.units4 || gl_LocalInvocationID.y > 0) return;
    vec4 z = GET(z_at + j);
    emit_h(j, (1.0 - z) * gate_g(of_input(2, j) + sums[0]) + z * GET(h_old + j));
}

void project(int lane) {
    int j = min(lane, p.h4 - 1);
    int extras = (PEEPHOLES != 0 ? 3 : 0) + (NORMALIZED != 0 ? 8 : 0);
    int at = w_at + (4 * p.h4 * GATES + extras) * p.units4 + j;
    projected_sums(m_at, p.units4, at, p.h4, 0);
    if (lane >= p.h4 || gl_LocalInvocationID.y > 0) return;
    vec4 h = sums[0] + LOAD4(w, at + 4 * p.units4 * p.h4);
    if ((BOUNDED & 4) != 0) h = bounded_by(h, -PROJECTION_CLIP, PROJECTION_CLIP);
    emit_h(j, h);
}

// Places of a step in all buffers.
void place(int entry, int step) {
    direction = entry / p.batch;
    int b = entry - direction * p.batch;
    bool back = p.reverse == 1 || (p.reverse == 2 && direction == 1);
    int t = back ? p.steps - 1 - step : step;
    w_at = direction * p.w_direction;
    x_at = t * p.x_step + b * p.x_batch + direction * GATES * p.units4;
    y_at = t * p.y_step + b * p.y_batch + direction * p.y_direction;
    h_old = (step & 1) * p.h4;
    h_new = p.h4 - h_old;
    c_at = 2 * p.h4;
    m_at = c_at + p.units4;
    z_at = m_at + p.units4;
    sums_at = z_at + p.units4;
}

// Statistics of the sums for both phases of a normalized LSTM.
void find_of_cell() {
    find_of_gate(0);
    if (COUPLED == 0) find_of_gate(2);
    find_of_gate(3);
}

void main() {
    int lane = int(gl_LocalInvocationID.x);
#if LOOP == 1
    int entry = linear_group();
    if (entry >= p.entries) return;
    int own = lane + LANES_X * int(gl_LocalInvocationID.y);
    for (int i = own; i < SLOTS; i += LANES_X * LANES_Y) {
        vec4 v = vec4(0.0);
        if (p.fresh == 0) v = state[entry * SLOTS + i];
        PUT(i, v);
    }
    barrier();
    for (int step = p.first; step < p.first + p.count; ++step) {
        place(entry, step);
        for (int base = 0; base < p.units4; base += LANES_X) gates(base + lane);
        barrier();
        if (CELL == 2) {
            for (int base = 0; base < p.units4; base += LANES_X) candidate(base + lane);
            barrier();
        }
        if (NORMALIZED != 0) {
            find_of_cell();
            for (int base = 0; base < p.units4; base += LANES_X) normal_cell(base + lane);
            barrier();
            find_of_gate(1);
            for (int base = 0; base < p.units4; base += LANES_X) normal_out(base + lane);
            barrier();
        }
        if (PROJECTION != 0) {
            for (int base = 0; base < p.h4; base += LANES_X) project(base + lane);
            barrier();
        }
    }
    for (int i = own; i < SLOTS; i += LANES_X * LANES_Y) state[entry * SLOTS + i] = GET(i);
#else
    int entry = linear_group() / p.blocks;
    if (entry >= p.entries) return;
    int block = linear_group() - entry * p.blocks;
    state_at = entry * p.slots;
    place(entry, p.first);
    if (PHASE == 0) gates(block * LANES_X + lane);
    if (PHASE == 1) candidate(block * LANES_X + lane);
    if (PHASE == 2) project(block * LANES_X + lane);
    if (PHASE == 3) {
        find_of_cell();
        normal_cell(block * LANES_X + lane);
    }
    if (PHASE == 4) {
        find_of_gate(1);
        if (OF_CANDIDATE != 0) find_of_gate(3);
        normal_out(block * LANES_X + lane);
    }
#endif
}
