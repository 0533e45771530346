// The operation of the pooling kernels: maximum, or sum and mean.

#include "common/extremes.glsl"

layout(constant_id = 10) const bool AVERAGE = false;

#if ELEM == 0
#define POOL_LOWEST uintBitsToFloat(0xff800000u)
#define POOL_NAN uintBitsToFloat(0x7fc00000u)
#else
#define POOL_LOWEST (-2147483647 - 1)
#endif

#if ELEM != 0
// Sums over their number of elements, halves away from zero; 0 where there are none.
ivec4 rounded_mean(ivec4 sum, int count) { return (sum + sign(sum) * (count / 2)) / max(count, 1); }
#endif

VEC4 pool_start() { return AVERAGE ? VEC4(0) : VEC4(POOL_LOWEST); }

VEC4 pool_join(VEC4 a, VEC4 b) {
    if (AVERAGE) return a + b;
#if ELEM == 0
    return larger(a, b);
#else
    return max(a, b);
#endif
}
