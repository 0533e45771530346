// Sums of a register tile of convolution: TN pixels times TM vec4s of output channels. Include behind
// convolution/sums.glsl and the constants TN and TM. Sums are at [pixel * TM + vec4 of channels].
//
// HOLD_WEIGHTS(name, place) stands before ADD_PRODUCTS(sum, partial, a, name, place). That adds the
// products of a[TN] with the weights of a step (a vec4 of input channels of one tap): WEIGHT_ROWS rows
// of TM vec4s from `place` of the buffer `name` on. With SHUFFLE the lanes of a subgroup load the
// weights together and pass them round, which needs workgroups of one subgroup of 8 and an even TM.

#ifndef VKNN_CONVOLUTION_PRODUCTS_GLSL
#define VKNN_CONVOLUTION_PRODUCTS_GLSL

#include "convolution/lines.glsl"

#if SHUFFLE
#define HOLD_WEIGHTS(name, place) \
    WEIGHT4 held[TM / 2]; \
    [[unroll]] for (int s_ = 0; s_ < TM / 2; s_++) held[s_] = LOAD4(name, (place) + s_ * 8 + lane);
#define WEIGHT(name, place, q, j) subgroupShuffle(held[((q) * TM + (j)) / 8], ((q) * TM + (j)) % 8)
#else
#define HOLD_WEIGHTS(name, place)
#ifndef WEIGHT  // a kernel may have rows of its own
#define WEIGHT(name, place, q, j) LOAD4(name, (place) + (q) * TM + (j))
#endif
#endif

#if FEW
// Where the quad of a step's vec4 of output channels lies, and which of those there it is. A step's are
// read together where they fill whole ivec4s.
const bool WHOLE_QUADS = TM % SHARING == 0;
#define PLACE_OF_QUAD(place, j) (WHOLE_QUADS ? (place) / SHARING + (j) / SHARING : ((place) + (j)) / SHARING)
#define PART_OF_QUAD(place, j) (WHOLE_QUADS ? (j) % SHARING : ((place) + (j)) % SHARING)
#endif

#if QUANT == 3
#if FEW
#define WEIGHT_BYTES(name, place, j) \
    BYTES_OF_FEW(LOAD4(name, PLACE_OF_QUAD(place, j)), PART_OF_QUAD(place, j))
#else
#define WEIGHT_BYTES(name, place, j) WEIGHT(name, place, 0, j)
#endif
#define ADD_PRODUCTS(sum, partial, a, name, place) \
    [[unroll]] for (int i_ = 0; i_ < TN; i_++) { ADD_DATA(partial, i_ * TM, a[i_]) } \
    [[unroll]] for (int j_ = 0; j_ < TM; j_++) { \
        ivec4 b = WEIGHT_BYTES(name, place, j_); \
        [[unroll]] for (int i_ = 0; i_ < TN; i_++) sum[i_ * TM + j_] += dots(a[i_], b); \
    }
#elif defined(DOTS)
#define ADD_PRODUCTS(sum, partial, a, name, place) \
    [[unroll]] for (int j_ = 0; j_ < TM; j_++) { \
        [[unroll]] for (int q_ = 0; q_ < 4; q_++) { \
            f16vec4 b = f16vec4(WEIGHT(name, place, q_, j_)); \
            [[unroll]] for (int i_ = 0; i_ < TN; i_++) { \
                int k_ = i_ * TM + j_; \
                sum[k_][q_] = dot_added(f16vec4(a[i_]), b, sum[k_][q_]); \
            } \
        } \
    }
#else
#if FEW
#define WEIGHT_FACTORS(name, place, j) \
    ivec4 b = LOAD4(name, PLACE_OF_QUAD(place, j)); \
    int part_ = PART_OF_QUAD(place, j); \
    FACTOR b0 = ROW_OF_FEW(b, part_, 0), b1 = ROW_OF_FEW(b, part_, 1); \
    FACTOR b2 = ROW_OF_FEW(b, part_, 2), b3 = ROW_OF_FEW(b, part_, 3);
#elif QUANT == 4
#define WEIGHT_FACTORS(name, place, j) \
    ivec4 b = WEIGHT(name, place, 0, j); \
    vec4 b0 = ROW_OF_BYTES(b, 0), b1 = ROW_OF_BYTES(b, 1); \
    vec4 b2 = ROW_OF_BYTES(b, 2), b3 = ROW_OF_BYTES(b, 3);
#else
#define WEIGHT_FACTORS(name, place, j) \
    FACTOR b0 = AS_FACTOR(WEIGHT(name, place, 0, j)), b1 = AS_FACTOR(WEIGHT(name, place, 1, j)); \
    FACTOR b2 = AS_FACTOR(WEIGHT(name, place, 2, j)), b3 = AS_FACTOR(WEIGHT(name, place, 3, j));
#endif
// A sum takes its four products in a row, so that it can stay in a register meanwhile.
#define ADD_PRODUCTS(sum, partial, a, name, place) \
    [[unroll]] for (int j_ = 0; j_ < TM; j_++) { \
        WEIGHT_FACTORS(name, place, j_) \
        [[unroll]] for (int i_ = 0; i_ < TN; i_++) { \
            FACTOR v_ = MULTIPLY_ADD(FACTOR(a[i_].x), b0, SUM(sum, partial)[i_ * TM + j_]); \
            v_ = MULTIPLY_ADD(FACTOR(a[i_].y), b1, v_); \
            v_ = MULTIPLY_ADD(FACTOR(a[i_].z), b2, v_); \
            SUM(sum, partial)[i_ * TM + j_] = MULTIPLY_ADD(FACTOR(a[i_].w), b3, v_); \
        } \
    }
#endif

// Declares the sums, each beginning with its bias; those of the block are from `place` on.
#define BEGIN_SUMS(sum, partial, place) \
    VEC4 sum[TN * TM]; \
    [[unroll]] for (int j_ = 0; j_ < TM; j_++) { \
        VEC4 b_ = BIAS((place) + j_); \
        [[unroll]] for (int i_ = 0; i_ < TN; i_++) sum[i_ * TM + j_] = b_; \
    } \
    PARTIAL_SUMS(partial, TN * TM)

// Behind the step of vec4 `c` - 1 of `channels`: the next tap `k` of `taps` along x, y and, with AXES 3, z.
#define NEXT_TAP(c, channels, k, taps) \
    k.x += c == channels ? 1 : 0; \
    c = c == channels ? 0 : c; \
    NEXT_LINE(k, taps)

#endif
