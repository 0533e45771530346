// Channels of the four elements of vec4 `at`: of a C4 tensor, its channel axis split in blocks of four,
// or of a LINEAR one. `inner`: vec4s, or scalars, from one channel block, or channel, to the next.
// Include common/indexing.glsl first.

// a modulo b for a >= 0, b > 0
int rest_of(int a, int b) { return a - quotient(a, b) * b; }

ivec4 channels_of(int c4, int at, int inner, int channels) {
    if (c4 != 0) {
        int block = rest_of(quotient(at, inner), (channels + 3) / 4);
        return min(4 * block + ivec4(0, 1, 2, 3), ivec4(channels - 1));
    }
    ivec4 element = 4 * at + ivec4(0, 1, 2, 3);
    return ivec4(rest_of(quotient(element.x, inner), channels), rest_of(quotient(element.y, inner), channels),
                 rest_of(quotient(element.z, inner), channels), rest_of(quotient(element.w, inner), channels));
}

// Zero in the lanes behind the last channel of a C4 tensor.
#define KEEP_CHANNELS(TYPE) \
    TYPE keep_channels(TYPE v, int at, int inner, int channels) { \
        int rest = channels - 4 * rest_of(quotient(at, inner), (channels + 3) / 4); \
        return mix(TYPE(0), v, lessThan(ivec4(0, 1, 2, 3), ivec4(rest))); \
    }
KEEP_CHANNELS(vec4)
KEEP_CHANNELS(ivec4)
