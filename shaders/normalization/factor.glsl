// The factor of a normalised row. Before the include: FACTOR, p.epsilon.
//
#include "common/extremes.glsl"

// s: the mean square of the row, or the sum of its squares.
vec4 factor_of(vec4 s) {
    if (FACTOR == 1) return 1.0 / sqrt(s + p.epsilon);
    if (FACTOR == 2) return 1.0 / (sqrt(s) + p.epsilon);
    if (FACTOR == 3) return 1.0 / sqrt(larger(s, vec4(p.epsilon)));
    if (FACTOR == 4) return 1.0 / larger(sqrt(s), vec4(p.epsilon));
    return vec4(1.0);
}
