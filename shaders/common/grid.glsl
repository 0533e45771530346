// Where a lane is in a dispatch whose workgroups are numbered in one row, folded over x, y and z
// because each of these has a limit. A dispatch may have more workgroups than the row is long.

#ifndef VKNN_GRID_GLSL
#define VKNN_GRID_GLSL

int linear_group() {
    uvec3 id = gl_WorkGroupID;
    return int(id.x + gl_NumWorkGroups.x * (id.y + gl_NumWorkGroups.y * id.z));
}

// The number of this lane in a dispatch of workgroups (n, 1, 1).
int linear_lane() { return linear_group() * int(gl_WorkGroupSize.x) + int(gl_LocalInvocationID.x); }

// a / b for a >= 0, b > 0, exact: a float quotient and two corrections. Integer division is a long
// sequence on GPUs and one scalar division a lane on CPUs.
int divide(int a, int b) {
    float inverse = 1.0 / float(b);
    int q = int(float(a) * inverse);
    q += int(floor(float(a - q * b) * inverse));
    int rest = a - q * b;
    return q + (rest >= b ? 1 : 0) - (rest < 0 ? 1 : 0);
}

#endif
