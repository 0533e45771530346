// The matrices of Winograd's minimal filtering F(TILE x TILE, 3x3) as straight code, in the form of
// Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015): TILE 2 as printed there
// (points 0, 1, -1, infinity). TILE 4 is the same construction on the points 0, +-sqrt(1/2),
// +-sqrt(2), infinity, whose rounding errors are a quarter of those on 0, +-1, +-2, infinity.
// vknn.lowering.kernels.convolution.winograd has the matrices, and transforms the weights.
//
// TRANSFORM_INPUT(d): d := B^T d, SIDE vec4s.  TRANSFORM_OUTPUT(d): the first TILE of d := A^T d.
// SCALED: of a transformed input in float16; the sums of absolute values of B^T's rows, squared, are
// 4 and 20.25. UNSCALED: makes up for that and for the scale of the weights (2 for TILE 4).

#ifndef VKNN_WINOGRAD_GLSL
#define VKNN_WINOGRAD_GLSL

#if LINES && HALF && !BF16
#define SCALED(v) ((v) * (TILE == 2 ? 1.0 / 4.0 : 1.0 / 32.0))
#define UNSCALED(v) ((v) * (TILE == 2 ? 4.0 : 16.0))
#else
#define SCALED(v) (v)
#define UNSCALED(v) (v)
#endif

#if TILE == 2
#define SIDE 4
#define TRANSFORM_INPUT(d) { \
        vec4 first = d[0] - d[2], last = d[1] - d[3]; \
        vec4 even = d[2], odd = d[1]; \
        d[0] = first; \
        d[1] = even + odd; \
        d[2] = even - odd; \
        d[3] = last; \
    }
#define TRANSFORM_OUTPUT(d) { \
        vec4 sum = d[1] + d[2], difference = d[1] - d[2]; \
        d[0] += sum; \
        d[1] = difference - d[3]; \
    }
#else
#define SIDE 6
const float POINT_A = 0.70710678118654752, POINT_B = 1.41421356237309505;
#define TRANSFORM_INPUT(d) { \
        vec4 first = fma(vec4(-2.5), d[2], d[0] + d[4]), last = fma(vec4(-2.5), d[3], d[1] + d[5]); \
        vec4 even_a = fma(vec4(-2.0), d[2], d[4]), odd_a = fma(vec4(-2.0), d[1], d[3]) * POINT_A; \
        vec4 even_b = fma(vec4(-0.5), d[2], d[4]), odd_b = fma(vec4(-0.5), d[1], d[3]) * POINT_B; \
        d[0] = first; \
        d[1] = even_a + odd_a; \
        d[2] = even_a - odd_a; \
        d[3] = even_b + odd_b; \
        d[4] = even_b - odd_b; \
        d[5] = last; \
    }
#define TRANSFORM_OUTPUT(d) { \
        vec4 sum_a = d[1] + d[2], difference_a = (d[1] - d[2]) * POINT_A; \
        vec4 sum_b = d[3] + d[4], difference_b = (d[3] - d[4]) * POINT_B; \
        d[0] += sum_a + sum_b; \
        d[1] = difference_a + difference_b; \
        d[2] = fma(vec4(0.5), sum_a, 2.0 * sum_b); \
        d[3] = fma(vec4(0.5), difference_a, 2.0 * difference_b) + d[5]; \
    }
#endif

#endif
