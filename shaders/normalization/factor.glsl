// The factor of a normalised row. Before the include: FACTOR, p.epsilon.
//
// s: the mean square of the row, or the sum of its squares.
vec4 factor_of(vec4 s) {
    if (FACTOR == 1) return 1.0 / sqrt(s + p.epsilon);
    if (FACTOR == 2) return 1.0 / (sqrt(s) + p.epsilon);
    if (FACTOR == 3) return 1.0 / sqrt(max(s, p.epsilon));
    if (FACTOR == 4) return 1.0 / max(sqrt(s), p.epsilon);
    return vec4(1.0);
}
