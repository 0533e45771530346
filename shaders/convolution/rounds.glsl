// The loops of convolution/conv.comp for GPUs: taps outside, channels inside in rounds of STEPS vec4s.
// Include behind convolution/products.glsl.
//
// A wave of a GPU goes on after a load until something needs what it loads. So the loads of a round
// stand ahead of all its products and are in flight together. What a tap decides, places and bounds,
// is worked out once a tap, from the place of the first one; from channel to channel a place moves on by a
// plane. STEPS -1: there is one vec4 of channels, and so no loop over them.

#ifndef VKNN_CONVOLUTION_ROUNDS_GLSL
#define VKNN_CONVOLUTION_ROUNDS_GLSL

// Where padding adds nothing to any sum, a lane of one pixel has no work outside. With PADDING it has: a
// weight may be infinite or NaN, which padding multiplies too.
#define SKIPS_PADDING (QUANT == 0 && TN == 1 && PADDING == 0)
// Of an array; for STEPS 0, too, it has to be a size.
const int ROUND = STEPS > 0 ? STEPS : 1;
#define IS_MASKED (AXES != 0 && !SKIPS_PADDING)

// Adds the products of `count` vec4s of channels from number `c_` on, whose planes follow `at_`[i] for pixel
// i. How far is the same for all lanes, so that no lane counts it.
#define ADD_ROUND(sum, partial, name, place, count) \
    HELD_X held_[(count) * TN]; \
    HELD_SCALES(scales_, count, scale_place + c_) \
    [[unroll]] for (int s_ = 0; s_ < (count); s_++) \
        [[unroll]] for (int i_ = 0; i_ < TN; i_++) held_[s_ * TN + i_] = HOLD_X(x, at_[i_] + (c_ + s_) * in_plane); \
    [[unroll]] for (int s_ = 0; s_ < (count); s_++) { \
        INPUT_FACTOR a_[TN]; \
        [[unroll]] for (int i_ = 0; i_ < TN; i_++) { \
            a_[i_] = scaled(TAKE_HELD(held_[s_ * TN + i_]), scales_[s_]); \
            if (IS_MASKED) a_[i_] = inside_[i_] ? a_[i_] : OUTSIDE; \
        } \
        ADD_PRODUCTS(sum, partial, a_, name, place + s_ * (WEIGHT_ROWS * TM)) \
    } \
    place += (count) * (WEIGHT_ROWS * TM); \
    since_ += (count); \
    if (MOST_PARTIAL_STEPS != 0 && since_ + ROUND > MOST_PARTIAL_STEPS) { \
        ADD_LAST_SUMS(sum, partial, TN * TM) \
        since_ = 0; \
    }

// vec4s of input channels that a lane adds products of: all, or those of its part.
#ifdef SPLIT
#define OWN_CHANNELS own_channels
#else
#define OWN_CHANNELS cg4
#endif

// Distance in x of a tap, or of a pixel, from where both are 0.
#define PLACE_OF(at) (((AXES == 3 ? (at).z * size.y : 0) + (at).y) * size.x + (at).x)

// Adds all products, with weights from `place` of the buffer `name` on. STEPS is at most
// MOST_PARTIAL_STEPS where that is not 0.
#define ADD_TAPS(sum, partial, name, place) \
    ivec3 tap_ = ivec3(0); \
    int since_ = 0;  /* steps whose products are in `partial` alone */ \
    int first_[TN];  /* places for the first tap, in padding, too */ \
    int moved_ = 0;  /* from there to those of a tap; worked out a tap before, else it is added in parts */ \
    [[unroll]] for (int i_ = 0; i_ < TN; i_++) first_[i_] = source + (AXES == 0 ? origin[i_].x : PLACE_OF(origin[i_])); \
    [[dont_unroll]] for (int left_ = taps; left_ > 0; left_--) { \
        bool inside_[TN]; \
        ivec3 shift_ = tap_ * dilation; \
        [[unroll]] for (int i_ = 0; i_ < TN; i_++) { \
            ivec3 from_ = origin[i_] + shift_; \
            inside_[i_] = uint(from_.x) < uint(size.x) && uint(from_.y) < uint(size.y); \
            if (AXES == 3) inside_[i_] = inside_[i_] && uint(from_.z) < uint(size.z); \
        } \
        tap_.x++; \
        NEXT_LINE(tap_, kernel) \
        int from_tap_ = place; \
        place += cg4 * (WEIGHT_ROWS * TM); \
        if (AXES == 0 || !SKIPS_PADDING || inside_[0]) { \
            int at_[TN], c_ = 0; \
            [[unroll]] for (int i_ = 0; i_ < TN; i_++) { \
                at_[i_] = first_[i_] + moved_; \
                if (IS_MASKED) at_[i_] = inside_[i_] ? at_[i_] : source; \
            } \
            if (STEPS < 0) { ADD_ROUND(sum, partial, name, from_tap_, 1) } \
            [[dont_unroll]] for (; STEPS > 0 && c_ + STEPS <= OWN_CHANNELS; c_ += STEPS) { \
                ADD_ROUND(sum, partial, name, from_tap_, ROUND) \
            } \
            if (STEPS > 1) { \
                [[dont_unroll]] for (; c_ < OWN_CHANNELS; c_++) { ADD_ROUND(sum, partial, name, from_tap_, 1) } \
            } \
        } \
        moved_ = PLACE_OF(tap_ * dilation); \
    }

#endif
