#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// Counts of the `size` ascending keys that are smaller than each value (RIGHT: or equal).
INPUT1(0, keys);
INPUT1(1, values);
OUTPUT1I(2, y);

layout(constant_id = 10) const int RIGHT = 0;

layout(push_constant) uniform P { int count, chunk, size; } p;

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        SCALAR v = LOAD1(values, i);
        int low = 0, high = p.size;
        while (low < high) {
            int middle = (low + high) / 2;
            SCALAR key = LOAD1(keys, middle);
            bool before = key < v || (RIGHT != 0 && key == v);
#if ELEM == 0
            before = before || (isnan(v) && (RIGHT != 0 || !isnan(key)));  // NaN is behind all numbers
#endif
            low = before ? middle + 1 : low;
            high = before ? high : middle;
        }
        STORE1(y, i, low);
    }
}
