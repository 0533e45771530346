#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// Rotations of pairs (a, b) of x to (a cos - b sin, a sin + b cos), those of row r of x by row r % rows
// of the tables, of their entry r / per_entry where they have several.

INPUT1F(0, x);
INPUT1F(1, cosine);
INPUT1F(2, sine);
OUTPUT1F(3, y);

layout(push_constant) uniform P {
    int count;        // pairs
    int chunk;
    int pairs;        // of a row
    int rows;         // of an entry of the tables
    int per_entry;    // rows of x
    int entry_step;   // 0: one entry for all of x
    int interleaved;
} p;

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int row, pair;
        divide_rest(i, p.pairs, row, pair);
        int entry = quotient(row, p.per_entry);
        int table = entry * p.entry_step + (row - quotient(row, p.rows) * p.rows) * p.pairs + pair;
        int first = 2 * row * p.pairs + (p.interleaved != 0 ? 2 * pair : pair);
        int second = first + (p.interleaved != 0 ? 1 : p.pairs);
        float a = LOAD1(x, first), b = LOAD1(x, second);
        float c = LOAD1(cosine, table), s = LOAD1(sine, table);
        STORE1(y, first, a * c - b * s);
        STORE1(y, second, a * s + b * c);
    }
}
