// Channels of the four elements of vec4 `at`: of a C4 tensor, its channel axis split in blocks of four,
// or of a LINEAR one. `inner`: vec4s, or scalars, from one channel block, or channel, to the next.

ivec4 channels_of(int c4, int at, int inner, int channels) {
    if (c4 != 0) {
        int block = divide(at, inner) % ((channels + 3) / 4);
        return min(4 * block + ivec4(0, 1, 2, 3), ivec4(channels - 1));
    }
    ivec4 element = 4 * at + ivec4(0, 1, 2, 3);
    return ivec4(divide(element.x, inner), divide(element.y, inner), divide(element.z, inner),
                 divide(element.w, inner)) % channels;
}

// Zero in the lanes behind the last channel of a C4 tensor.
#define KEEP_CHANNELS(TYPE) \
    TYPE keep_channels(TYPE v, int at, int inner, int channels) { \
        int rest = channels - 4 * (divide(at, inner) % ((channels + 3) / 4)); \
        return mix(TYPE(0), v, lessThan(ivec4(0, 1, 2, 3), ivec4(rest))); \
    }
KEEP_CHANNELS(vec4)
KEEP_CHANNELS(ivec4)
