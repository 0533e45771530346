// Steps over the taps of a convolution, for kernels with specialization constant AXES.

#ifndef VKNN_CONVOLUTION_LINES_GLSL
#define VKNN_CONVOLUTION_LINES_GLSL

// Behind the last tap of a line along x: the first of the next.
#define NEXT_LINE(k, taps) \
    k.y += k.x == taps.x ? 1 : 0; \
    k.x = k.x == taps.x ? 0 : k.x; \
    if (AXES == 3) { \
        k.z += k.y == taps.y ? 1 : 0; \
        k.y = k.y == taps.y ? 0 : k.y; \
    }

#endif
