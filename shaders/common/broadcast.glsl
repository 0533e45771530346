// Two operands x and w, broadcast to the output, in either layout. An item is a vec4 of the output.
//
// An operand is DIRECT (it lies as the output does), or its place is the sum of its strides over up
// to six axes. WIDE: axes and strides count vec4s; those of a SPLAT operand, which is broadcast
// along the lanes, count scalars. Not WIDE: LINEAR, all of them count scalars, and x and w are
// declared with the 1 forms. Included behind the push constants p, which have
// `elements`, `size[6]`, `stride_x[6]` and `stride_w[6]` (vknn.lowering.kernels.elementwise.broadcasting). With CHOICE
// there is a third operand, c of int, with `stride_c[6]`, which load() leaves in `chosen`.

#ifndef VKNN_BROADCAST_GLSL
#define VKNN_BROADCAST_GLSL

layout(constant_id = 16) const int RANK = 6;
layout(constant_id = 17) const int DIRECT_X = 0;
layout(constant_id = 18) const int DIRECT_W = 0;
layout(constant_id = 19) const int SPLAT_X = 0;
layout(constant_id = 20) const int SPLAT_W = 0;
#ifdef CHOICE
layout(constant_id = 21) const int DIRECT_C = 0;
layout(constant_id = 22) const int SPLAT_C = 0;
ivec4 chosen;
int in_c;
#define WALK_C(d) in_c += at * p.stride_c[d];
#else
#define WALK_C(d)
#endif

// Axis d, written out so that every index is a constant.
#define WALK(d) \
    if (RANK > 5 - d) { \
        int at = rest; \
        if (RANK > 6 - d) divide_rest(at, p.size[d], rest, at); \
        in_x += at * p.stride_x[d]; \
        in_w += at * p.stride_w[d]; \
        WALK_C(d) \
    }

// Places in x and w of item (or element) e of the output.
void places(int e, out int in_x, out int in_w) {
    in_x = in_w = 0;
#ifdef CHOICE
    in_c = 0;
#endif
    int rest = e;
    WALK(5)
    WALK(4)
    WALK(3)
    WALK(2)
    WALK(1)
    WALK(0)
    if (DIRECT_X != 0) in_x = e;
    if (DIRECT_W != 0) in_w = e;
#ifdef CHOICE
    if (DIRECT_C != 0) in_c = e;
#endif
}

VEC4 lane(VEC4 v, int k) { return VEC4(k < 2 ? (k == 0 ? v.x : v.y) : (k == 2 ? v.z : v.w)); }

#ifdef CHOICE
ivec4 int_lane(ivec4 v, int k) {
    return ivec4(k < 2 ? (k == 0 ? v.x : v.y) : (k == 2 ? v.z : v.w));
}
#define CHOOSE(component) chosen.component = LOAD1(c, in_c);
#else
#define CHOOSE(component)
#endif

void load(int i, out VEC4 v, out VEC4 u) {
    int in_x, in_w;
#if WIDE
    places(i, in_x, in_w);
    if (SPLAT_X != 0) v = lane(LOAD4(x, in_x >> 2), in_x & 3);
    else v = LOAD4(x, in_x);
    if (SPLAT_W != 0) u = lane(LOAD4(w, in_w >> 2), in_w & 3);
    else u = LOAD4(w, in_w);
#ifdef CHOICE
    if (SPLAT_C != 0) chosen = int_lane(LOAD4(c, in_c >> 2), in_c & 3);
    else chosen = LOAD4(c, in_c);
#endif
#else
    // The last item may reach behind the tensor; what it puts there is never read.
    int e = i * 4, last = p.elements - 1;
    places(e, in_x, in_w);
    v.x = LOAD1(x, in_x);
    u.x = LOAD1(w, in_w);
    CHOOSE(x)
    places(min(e + 1, last), in_x, in_w);
    v.y = LOAD1(x, in_x);
    u.y = LOAD1(w, in_w);
    CHOOSE(y)
    places(min(e + 2, last), in_x, in_w);
    v.z = LOAD1(x, in_x);
    u.z = LOAD1(w, in_w);
    CHOOSE(z)
    places(min(e + 3, last), in_x, in_w);
    v.w = LOAD1(x, in_x);
    u.w = LOAD1(w, in_w);
    CHOOSE(w)
#endif
}

#endif
