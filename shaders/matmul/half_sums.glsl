// Sums of products in register tiles. With HALF_SUMS products are multiplied and added up in float16,
// 16 of them at a time, and these sums added up in float32; without, all is float32.
//
// SUM(sums, partial) is the array that products are added to; ADD_PARTIAL_SUMS follows the products of
// vec4 number `k` of k, ADD_LAST_SUMS the last of them.

#ifdef HALF_SUMS
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define FACTOR f16vec4
#define AS_FACTOR(v) f16vec4(v)
#define SUM(sums, partial) partial
#define PARTIAL_SUMS(partial, count) \
    f16vec4 partial[count]; \
    [[unroll]] for (int i_ = 0; i_ < count; i_++) partial[i_] = f16vec4(0.0);
#define ADD_PARTIAL_SUMS(sums, partial, count, k) \
    if (((k) & 3) == 3) { \
        [[unroll]] for (int i_ = 0; i_ < count; i_++) { \
            sums[i_] += vec4(partial[i_]); \
            partial[i_] = f16vec4(0.0); \
        } \
    }
#define ADD_LAST_SUMS(sums, partial, count) ADD_PARTIAL_SUMS(sums, partial, count, 3)
#else
#define FACTOR VEC4
#define AS_FACTOR(v) v
#define SUM(sums, partial) sums
#define PARTIAL_SUMS(partial, count)
#define ADD_PARTIAL_SUMS(sums, partial, count, k)
#define ADD_LAST_SUMS(sums, partial, count)
#endif
