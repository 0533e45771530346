#version 450
#pragma vknn variants ACCESS=0,1,2
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"

// The steps of a partial heap sort (vknn/ops/detection/heap.py), a lane a group, where equal scores make them
// matter. heap [groups, 1 + most]: whether they do, then indices of boxes.
//
// A dispatch takes steps `first` to `last` - 1: the heap is made, later boxes take the place of its top,
// tops are taken off.

INPUT1S(0, scores);  // [groups, stride]
INOUT1I(1, heap);

layout(push_constant) uniform P {
    int groups, count, stride, most, first, last;
} p;

int at_, base_;  // where the group's heap and its scores begin

float score_of(int box) { return LOAD1(scores, base_ + box); }

// Puts a box into the heap of `size`, where `top` is free: the hole goes down to a leaf, always to the
// smaller child (of equal ones the right), and the box up from there.
void sink(int top, int size, int box) {
    int hole = top;
    while (2 * hole + 2 < size) {
        int child = 2 * hole + 2, right = heap[at_ + child], left = heap[at_ + child - 1];
        bool to_left = score_of(right) > score_of(left);
        STORE1(heap, at_ + hole, to_left ? left : right);
        hole = to_left ? child - 1 : child;
    }
    if (2 * hole + 2 == size) {
        STORE1(heap, at_ + hole, heap[at_ + 2 * hole + 1]);
        hole = 2 * hole + 1;
    }
    float score = score_of(box);
    while (hole > top) {
        int parent = (hole - 1) / 2, other = heap[at_ + parent];
        if (!(score_of(other) > score)) break;
        STORE1(heap, at_ + hole, other);
        hole = parent;
    }
    STORE1(heap, at_ + hole, box);
}

void main() {
    int group = linear_lane();
    if (group >= p.groups) return;
    if (heap[group * (1 + p.most)] == 0) return;
    at_ = group * (1 + p.most) + 1;
    base_ = group * p.stride;
    int made = p.most / 2, filled = made + p.count - p.most;
    for (int number = p.first; number < p.last; number++) {
        if (number < made) {
            int parent = made - 1 - number;
            sink(parent, p.most, heap[at_ + parent]);
        } else if (number < filled) {
            int box = p.most + number - made;
            if (score_of(box) > score_of(heap[at_])) sink(0, p.most, box);
        } else {
            int end = p.most - 1 - (number - filled), box = heap[at_ + end];
            STORE1(heap, at_ + end, heap[at_]);
            sink(0, end, box);
        }
    }
}
