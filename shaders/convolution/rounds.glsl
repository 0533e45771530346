// The loops of convolution/conv.comp for GPUs: taps outside, channels inside in rounds of STEPS vec4s.
// Include behind convolution/products.glsl.
//
// A wave of a GPU goes on after a load until something needs what it loads. So the loads of a round
// stand ahead of all its products and are in flight together. What a tap decides, places and bounds,
// is worked out once a tap; from channel to channel a place moves on by a plane.

#ifndef VKNN_CONVOLUTION_ROUNDS_GLSL
#define VKNN_CONVOLUTION_ROUNDS_GLSL

// Where padding adds nothing to any sum, a lane of one pixel has no work outside.
#define SKIPS_PADDING (QUANT == 0 && TN == 1)
// Of an array; for STEPS 0, too, it has to be a size.
const int ROUND = STEPS > 0 ? STEPS : 1;
#define IS_MASKED (AXES != 0 && !SKIPS_PADDING)

// Adds the products of `count` vec4s of channels from number `c_` on, those of pixel i from `at_`[i] on.
#define ADD_ROUND(sum, partial, name, place, count) \
    HELD_X held_[(count) * TN]; \
    HELD_SCALES(scales_, count, scale_place + c_) \
    [[unroll]] for (int s_ = 0; s_ < (count); s_++) \
        [[unroll]] for (int i_ = 0; i_ < TN; i_++) held_[s_ * TN + i_] = HOLD_X(x, at_[i_] + s_ * in_plane); \
    [[unroll]] for (int s_ = 0; s_ < (count); s_++) { \
        INPUT_FACTOR a_[TN]; \
        [[unroll]] for (int i_ = 0; i_ < TN; i_++) { \
            a_[i_] = scaled(TAKE_HELD(held_[s_ * TN + i_]), scales_[s_]); \
            if (IS_MASKED) a_[i_] = inside_[i_] ? a_[i_] : OUTSIDE; \
        } \
        ADD_PRODUCTS(sum, partial, a_, name, place + s_ * (WEIGHT_ROWS * TM)) \
    } \
    [[unroll]] for (int i_ = 0; i_ < TN; i_++) at_[i_] += (count) * in_plane; \
    place += (count) * (WEIGHT_ROWS * TM); \
    since_ += (count); \
    if (MOST_PARTIAL_STEPS != 0 && since_ + STEPS > MOST_PARTIAL_STEPS) { \
        ADD_LAST_SUMS(sum, partial, TN * TM) \
        since_ = 0; \
    }

// vec4s of input channels that a lane adds products of: all, or those of its part.
#ifdef SPLIT
#define OWN_CHANNELS own_channels
#else
#define OWN_CHANNELS cg4
#endif

// Adds all products, with weights from `place` of the buffer `name` on. STEPS is at most
// MOST_PARTIAL_STEPS where that is not 0.
#define ADD_TAPS(sum, partial, name, place) \
    ivec3 tap_ = ivec3(0); \
    int since_ = 0;  /* steps whose products are in `partial` alone */ \
    [[dont_unroll]] for (int left_ = taps; left_ > 0; left_--) { \
        int at_[TN]; \
        bool inside_[TN]; \
        [[unroll]] for (int i_ = 0; i_ < TN; i_++) { \
            ivec3 from_ = origin[i_] + tap_ * dilation; \
            inside_[i_] = uint(from_.x) < uint(size.x) && uint(from_.y) < uint(size.y); \
            if (AXES == 3) inside_[i_] = inside_[i_] && uint(from_.z) < uint(size.z); \
            int place_ = ((AXES == 3 ? from_.z * size.y : 0) + from_.y) * size.x + from_.x; \
            at_[i_] = source + (AXES == 0 ? from_.x : inside_[i_] ? place_ : 0); \
        } \
        tap_.x++; \
        NEXT_LINE(tap_, kernel) \
        int from_tap_ = place; \
        place += cg4 * (WEIGHT_ROWS * TM); \
        if (AXES == 0 || !SKIPS_PADDING || inside_[0]) { \
            int c_ = 0; \
            [[dont_unroll]] for (; c_ + STEPS <= OWN_CHANNELS; c_ += STEPS) { \
                ADD_ROUND(sum, partial, name, from_tap_, ROUND) \
            } \
            if (STEPS > 1) { \
                [[dont_unroll]] for (; c_ < OWN_CHANNELS; c_++) { ADD_ROUND(sum, partial, name, from_tap_, 1) } \
            } \
        } \
    }

#endif
