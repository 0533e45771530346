#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// marks[i]: the first element equal to element i of those before it; -1 from the start, and where there
// is none. A dispatch looks at the elements from `first` to `last` - 1.
INPUT1(0, x);
INOUT1I(1, marks);

layout(push_constant) uniform P { int count, chunk, first, last; } p;

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        int found = marks[i], end = min(i, p.last);
        SCALAR v = LOAD1(x, i);
        for (int j = p.first; j < end && found < 0; j++) found = LOAD1(x, j) == v ? j : found;
        marks[i] = found;
    }
}
