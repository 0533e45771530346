// Maxima, bounds and interpolation by the rules of NaN and infinities that NumPy has.
// GLSL's own maximum may return either operand.

#ifndef VKNN_EXTREMES_GLSL
#define VKNN_EXTREMES_GLSL

float larger(float a, float b) { return isnan(a) || isnan(b) ? a + b : max(a, b); }
vec2 larger(vec2 a, vec2 b) { return mix(max(a, b), a + b, bvec2(uvec2(isnan(a)) | uvec2(isnan(b)))); }
vec2 smaller(vec2 a, vec2 b) { return mix(min(a, b), a + b, bvec2(uvec2(isnan(a)) | uvec2(isnan(b)))); }
vec4 larger(vec4 a, vec4 b) { return mix(max(a, b), a + b, bvec4(uvec4(isnan(a)) | uvec4(isnan(b)))); }
vec4 smaller(vec4 a, vec4 b) { return mix(min(a, b), a + b, bvec4(uvec4(isnan(a)) | uvec4(isnan(b)))); }
vec4 bounded_by(vec4 v, float low, float high) { return mix(clamp(v, low, high), v, isnan(v)); }

// a + (b - a) * share of neighbours; a share of 0 does not read b, which may be infinite or NaN.
float between(float a, float b, float share) { return share == 0.0 ? a : mix(a, b, share); }
vec4 between(vec4 a, vec4 b, float share) { return share == 0.0 ? a : mix(a, b, share); }

// Infinity for NaN: for ranges of rows, which are then infinite.
float without_nan(float v) { return isnan(v) ? uintBitsToFloat(0x7f800000u) : v; }
vec4 without_nan(vec4 v) { return mix(v, vec4(uintBitsToFloat(0x7f800000u)), isnan(v)); }

#endif
