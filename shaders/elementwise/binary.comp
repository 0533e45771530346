#version 450
#pragma vknn variants ACCESS=0,1,2 ELEM=0,1 WIDE=0,1
#pragma vknn variants ACCESS=0,1,2 ELEM=0 WIDE=0,1 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/indexing.glsl"

// y = op(x, w) and a tail, with broadcasting, in either layout. An item is a vec4 of the output.
//
// An operand is DIRECT (it lies as the output does), or its place is the sum of its strides over up
// to six axes. WIDE: axes and strides count vec4s; those of a SPLAT operand, which is broadcast
// along the lanes, count scalars. Not WIDE: LINEAR, all of them count scalars.
#if WIDE
INPUT4(0, x);
INPUT4(1, w);
#else
INPUT1(0, x);
INPUT1(1, w);
#endif
OUTPUT4(2, y);
#if ELEM == 0
#define EPILOGUE_BINDING 3
#define EPILOGUE_OPERANDS 1
#include "common/epilogue.glsl"
#else
#include "common/opcodes.glsl"
#include "elementwise/integers.glsl"
#endif

layout(constant_id = 10) const int CODE = 0;
layout(constant_id = 13) const int LOCATE = 0;  // the tail asks for the channel
layout(constant_id = 14) const int TAIL = 0;    // lanes behind the last channel need zeroing
layout(constant_id = 15) const int WRAP = 0;
layout(constant_id = 16) const int RANK = 6;
layout(constant_id = 17) const int DIRECT_X = 0;
layout(constant_id = 18) const int DIRECT_W = 0;
layout(constant_id = 19) const int SPLAT_X = 0;
layout(constant_id = 20) const int SPLAT_W = 0;

layout(push_constant) uniform P {
    int count, chunk, elements, spatial, blocks, channels;
    int size[6], stride_x[6], stride_w[6];
} p;

// Axis d, written out so that every index is a constant.
#define WALK(d) \
    if (RANK > 5 - d) { \
        int at = rest; \
        if (RANK > 6 - d) divide_rest(at, p.size[d], rest, at); \
        in_x += at * p.stride_x[d]; \
        in_w += at * p.stride_w[d]; \
    }

// Places in x and w of item (or element) e of the output.
void places(int e, out int in_x, out int in_w) {
    in_x = in_w = 0;
    int rest = e;
    WALK(5)
    WALK(4)
    WALK(3)
    WALK(2)
    WALK(1)
    WALK(0)
    if (DIRECT_X != 0) in_x = e;
    if (DIRECT_W != 0) in_w = e;
}

VEC4 lane(VEC4 v, int k) { return VEC4(k < 2 ? (k == 0 ? v.x : v.y) : (k == 2 ? v.z : v.w)); }

void load(int i, out VEC4 v, out VEC4 u) {
    int in_x, in_w;
#if WIDE
    places(i, in_x, in_w);
    if (SPLAT_X != 0) v = lane(LOAD4(x, in_x >> 2), in_x & 3);
    else v = LOAD4(x, in_x);
    if (SPLAT_W != 0) u = lane(LOAD4(w, in_w >> 2), in_w & 3);
    else u = LOAD4(w, in_w);
#else
    // The last item may reach behind the tensor; what it puts there is never read.
    int e = i * 4, last = p.elements - 1;
    places(e, in_x, in_w);
    v.x = LOAD1(x, in_x);
    u.x = LOAD1(w, in_w);
    places(min(e + 1, last), in_x, in_w);
    v.y = LOAD1(x, in_x);
    u.y = LOAD1(w, in_w);
    places(min(e + 2, last), in_x, in_w);
    v.z = LOAD1(x, in_x);
    u.z = LOAD1(w, in_w);
    places(min(e + 3, last), in_x, in_w);
    v.w = LOAD1(x, in_x);
    u.w = LOAD1(w, in_w);
#endif
}

void main() {
    FOR_EACH_ITEM(i, p.count, p.chunk) {
        VEC4 v, u;
        load(i, v, u);
        int channel = 0;
        if (LOCATE != 0) {
            int row = quotient(i, p.spatial);
            channel = row - quotient(row, p.blocks) * p.blocks;
        }
#if ELEM == 0
        BINARY_OP(CODE, v, v, u)
        v = epilogue4(v, i, channel);
#else
        BINARY_INTEGER(CODE, v, v, u)
        v = wrap(v, WRAP);
#endif
        if (TAIL != 0) v = zero_tail(v, channel, p.channels);
        STORE4(y, i, v);
    }
}
