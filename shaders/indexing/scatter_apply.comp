#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1 WIDE=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"
#if ELEM == 1
#include "elementwise/integers.glsl"
#endif

// Rows of `inner` elements (vec4s where WIDE) of y made of those of x and the updates that
// indexing/scatter_link.comp put on the row's list. An item is an element of an update; the one at the head of
// the list does the work for the others.
#if WIDE == 1
INPUT4(0, x);
INPUT4(1, updates);
OUTPUT4(3, y);
#define VALUES VEC4
#define LOAD LOAD4
#define STORE STORE4
#else
INPUT1(0, x);
INPUT1(1, updates);
OUTPUT1(3, y);
#define VALUES SCALAR
#define LOAD LOAD1
#define STORE STORE1
#endif
INPUT1I(2, links);

layout(constant_id = 10) const int REDUCTION = 0;  // 0 none (the last), 1 add, 2 mul, 3 max, 4 min
layout(constant_id = 11) const int ORDERED = 0;    // lists no longer are taken in the order of updates
layout(constant_id = 12) const int WRAP = 0;       // bits of an integer (wrap of integers.glsl)

layout(push_constant) uniform P { int count, chunk, first, update_count, rows, inner; } p;

bool unordered(float v) { return isnan(v); }
bool unordered(int v) { return false; }

SCALAR chosen(SCALAR a, SCALAR b) {
    return unordered(b) || (REDUCTION == 3 ? b > a : b < a) ? b : a;
}

#if WIDE == 1
VEC4 chosen(VEC4 a, VEC4 b) {
    return VEC4(chosen(a.x, b.x), chosen(a.y, b.y), chosen(a.z, b.z), chosen(a.w, b.w));
}
#endif

VALUES combined(VALUES a, VALUES b) {
    if (REDUCTION == 1) return a + b;
    if (REDUCTION == 2) return a * b;
    return chosen(a, b);
}

VALUES update_of(int number, int place) { return LOAD(updates, (p.first + number) * p.inner + place); }

int next(int number) { return LOAD1(links, p.rows + p.update_count + number); }

VALUES listed(VALUES v, int head, int place) {
    int length = 0;
    if (ORDERED != 0)
        for (int k = head; k >= 0; k = next(k)) length++;
    if (length == 0 || length > ORDERED) {
        for (int k = head; k >= 0; k = next(k)) v = combined(v, update_of(k, place));
        return v;
    }
    int done = -1;
    for (int n = 0; n < length; n++) {
        int least = 0x7fffffff;
        for (int k = head; k >= 0; k = next(k)) least = k > done ? min(least, k) : least;
        v = combined(v, update_of(least, place));
        done = least;
    }
    return v;
}

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int number, place;
        divide_rest(i, p.inner, number, place);
        int row = LOAD1(links, p.rows + number);
        int head = row < 0 ? -1 : LOAD1(links, max(row, 0));
        if (head == number) {
            int to = row * p.inner + place;
            VALUES v;
            if (REDUCTION == 0) v = update_of(number, place);
            else v = listed(LOAD(x, to), head, place);
#if ELEM == 1
#if WIDE == 1
            if (WRAP != 0) v = wrap(v, WRAP);
#else
            if (WRAP != 0) v = wrap(ivec4(v), WRAP).x;
#endif
#endif
            STORE(y, to, v);
        }
    }
}
