// Elementary functions to about float32's own accuracy, for every device: Vulkan only asks exp, log,
// sin, atan... of a driver to an absolute error that a comparison with NumPy would notice.
// Polynomials: least-squares fits in minimax weighting over the intervals named beside them.
// `precise` keeps compilers from regrouping where the grouping is the point.

#ifndef VKNN_MATHF_GLSL
#define VKNN_MATHF_GLSL

#define M_LN2 0.69314718056
#define M_PI 3.14159265359
#define M_PI_2 1.57079632679
#define M_PI_4 0.78539816340
#define M_SMALL 9.094947017729282e-13  // 2^-40
#define M_LARGE 1099511627776.0        // 2^40
#define M_INF uintBitsToFloat(0x7f800000u)
#define M_NAN uintBitsToFloat(0x7fc00000u)

// Component by component: if_(c, a, b) is a where c, b elsewhere.
vec4 if_(bvec4 c, vec4 a, vec4 b) { return mix(b, a, c); }

// 2^n for whole n in [-127, 127]; 0 for -127.
vec4 m_exp2i(vec4 n) { return intBitsToFloat((ivec4(n) + 127) << 23); }

// exp(v) = (1 + x) * 2^n: gives x, sets n. |r| <= ln(2) / 2.
vec4 m_exp_parts(vec4 v, out vec4 n) {
    n = roundEven(v * 1.4426950409);
    precise vec4 r = v - n * 0.693359375;
    r = r - n * -2.12194440e-4;
    vec4 q = 4.1666268e-2 + r * (8.333265e-3 + r * (1.394619e-3 + r * 1.991797e-4));
    return r + r * r * (0.5 + r * (1.6666667e-1 + r * q));
}

vec4 m_exp(vec4 v) {
    vec4 n;
    vec4 x = m_exp_parts(v, n);
    vec4 y = (1.0 + x) * m_exp2i(n - 1.0) * 2.0;
    y = if_(greaterThan(v, vec4(88.7228394)), vec4(M_INF), y);
    return if_(lessThan(v, vec4(-87.33)), vec4(0.0), y);
}

vec4 m_expm1(vec4 v) {
    vec4 n;
    vec4 x = m_exp_parts(v, n);
    vec4 s = m_exp2i(n - 1.0);
    vec4 y = (x * s + (s - 0.5)) * 2.0;
    y = if_(greaterThan(v, vec4(88.7228394)), vec4(M_INF), y);
    return if_(lessThan(v, vec4(-20.0)), vec4(-1.0), y);
}

// v = (1 + f) * 2^e with 1 + f in [sqrt(1/2), sqrt(2)), for positive normal v.
vec4 m_log_parts(vec4 v, out vec4 e) {
    ivec4 bits = floatBitsToInt(v) - 0x3f3504f3;
    e = vec4(bits >> 23);
    return intBitsToFloat((bits & 0x7fffff) + 0x3f3504f3) - 1.0;
}

// log(1 + f) for the f of m_log_parts.
vec4 m_log1p_core(vec4 f) {
    vec4 p = 1.1872976e-1 + f * (-1.1789808e-1 + f * 6.9153680e-2);
    p = 1.4218654e-1 + f * (-1.2384348e-1 + f * p);
    p = 2.0002227e-1 + f * (-1.6669251e-1 + f * p);
    p = 3.3333310e-1 + f * (-2.4999987e-1 + f * p);
    return f + f * f * (f * p - 0.5);
}

// What a logarithm is where the core cannot say: log(0) = -inf, log(inf) = inf, below 0 not a number.
vec4 m_log_edges(vec4 v, vec4 y) {
    y = if_(lessThan(v, vec4(1.1754944e-38)), vec4(-M_INF), y);
    y = if_(lessThan(v, vec4(0.0)), vec4(M_NAN), y);
    y = if_(equal(v, vec4(M_INF)), v, y);
    return if_(isnan(v), v, y);
}

vec4 m_log(vec4 v) {
    vec4 e;
    vec4 y = m_log1p_core(m_log_parts(v, e));
    return m_log_edges(v, (y + e * -2.12194440e-4) + e * 0.693359375);
}

// With u = fl(1 + v), log(1 + v) = log(u) * v / (u - 1) to full accuracy (Kahan).
vec4 m_log1p(vec4 v) {
    precise vec4 u = 1.0 + v;
    precise vec4 d = u - 1.0;
    vec4 y = m_log(u) * (v / d);
    y = if_(equal(d, vec4(0.0)), v, y);
    return if_(equal(v, vec4(M_INF)), v, y);
}

// sin and cos of r, |r| <= pi / 4.
vec4 m_sin_core(vec4 r) {
    vec4 u = r * r;
    return r + r * u * (-1.6666667e-1 + u * (8.3333294e-3 + u * (-1.9839327e-4 + u * 2.7182372e-6)));
}
vec4 m_cos_core(vec4 r) {
    vec4 u = r * r;
    return 1.0 - 0.5 * u + u * u * (4.1666647e-2 + u * (-1.3887361e-3 + u * 2.4437729e-5));
}

// 2/pi in binary, 224 places behind a word of zeros.
const uint M_TWO_OVER_PI[8] = uint[8](
    0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu);

uint m_two_over_pi(int place) {
    int word = place >> 5, shift = place & 31;
    uint rest = shift == 0 ? 0u : M_TWO_OVER_PI[word + 1] >> (32 - shift);
    return (M_TWO_OVER_PI[word] << shift) | rest;
}

// v = r + q * pi/2 with |r| <= pi/4 for 2^12 < |v| < infinity (Payne and Hanek): of v * 2/pi, whole
// numbers times powers of two, all that is a multiple of 4 is left out.
float m_far_quadrant(float v, out int q) {
    uint bits = floatBitsToUint(v);
    uint digits = (bits & 0x7fffffu) | 0x800000u;
    int place = int((bits >> 23) & 255u) - 150 + 30;  // the first place that counts has the weight 2
    uint high0, low0, high1, low1, carry;
    umulExtended(digits, m_two_over_pi(place + 64), high0, low0);
    umulExtended(digits, m_two_over_pi(place + 32), high1, low1);
    uint low = uaddCarry(low1, high0, carry);
    uint high = digits * m_two_over_pi(place) + high1 + carry;  // quarters of 2^32 are turns of pi/2
    uint turns = (high + 0x20000000u) >> 30;
    high -= turns << 30;
    bool below = (high & 0x80000000u) != 0u;
    if (below) {
        low = ~low + 1u;
        high = ~high + (low == 0u ? 1u : 0u);
    }
    float r = (float(high) * 9.31322575e-10 + float(low) * 2.16840434e-19) * 1.57079633;
    bool negative = v < 0.0;
    q = negative ? -int(turns) : int(turns);
    return below != negative ? -r : r;
}

void m_far_part(float v, inout float r, inout int q) {
    if (abs(v) > 8192.0 && abs(v) < M_INF) r = m_far_quadrant(v, q);
}

// v = r + q * pi/2 with |r| <= pi/4; up to 8192 with pi/2 in three parts of at most 11 bits and the
// rest (exact for |q| < 8192).
vec4 m_quadrant(vec4 v, out ivec4 q) {
    vec4 n = roundEven(v * 0.63661977);
    q = ivec4(n) & 3;
    precise vec4 r = v - n * 1.5703125;
    r = r - n * 4.8375129699707e-4;
    r = r - n * 7.54953362047672e-8;
    if (any(greaterThan(abs(v), vec4(8192.0)))) {
        m_far_part(v.x, r.x, q.x);
        m_far_part(v.y, r.y, q.y);
        m_far_part(v.z, r.z, q.z);
        m_far_part(v.w, r.w, q.w);
    }
    return r;
}

// sin(v + shift * pi/2)
vec4 m_sin_shifted(vec4 v, int shift) {
    ivec4 q;
    vec4 r = m_quadrant(v, q);
    q = (q + shift) & 3;
    vec4 y = if_(equal(q & 1, ivec4(0)), m_sin_core(r), m_cos_core(r));
    return if_(lessThan(q, ivec4(2)), y, -y);
}

vec4 m_tan(vec4 v) {
    ivec4 q;
    vec4 r = m_quadrant(v, q);
    vec4 s = m_sin_core(r), c = m_cos_core(r);
    return if_(equal(q & 1, ivec4(0)), s / c, -c / s);
}

// asin(x) for 0 <= x <= 1/2
vec4 m_asin_core(vec4 x) {
    vec4 u = x * x;
    vec4 p = 3.1817609e-2 + u * (1.4402615e-2 + u * 3.7565188e-2);
    p = 1.6666660e-1 + u * (7.5005109e-2 + u * (4.4515721e-2 + u * p));
    return x + x * u * p;
}

// Beyond 1/2: asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)).
vec4 m_asin(vec4 v) {
    vec4 x = abs(v);
    bvec4 large = greaterThan(x, vec4(0.5));
    vec4 y = m_asin_core(if_(large, sqrt(0.5 - 0.5 * x), x));
    y = if_(large, M_PI_2 - 2.0 * y, y);
    y = if_(greaterThan(x, vec4(1.0)), vec4(M_NAN), y);
    return if_(lessThan(v, vec4(0.0)), -y, y);
}

vec4 m_acos(vec4 v) {
    vec4 x = abs(v);
    bvec4 large = greaterThan(x, vec4(0.5));
    vec4 y = m_asin_core(if_(large, sqrt(0.5 - 0.5 * x), x));
    bvec4 negative = lessThan(v, vec4(0.0));
    vec4 near = if_(negative, M_PI - 2.0 * y, 2.0 * y);
    y = if_(large, near, M_PI_2 - if_(negative, -y, y));
    return if_(greaterThan(x, vec4(1.0)), vec4(M_NAN), y);
}

// atan(a / b) for a, b >= 0, not both 0. Above tan(pi/8): pi/4 + atan((t - 1) / (t + 1)).
vec4 m_atan_ratio(vec4 a, vec4 b) {
    bvec4 swap = greaterThan(a, b);
    vec4 x = if_(swap, b / a, a / b);
    bvec4 shift = greaterThan(x, vec4(0.41421356));
    x = if_(shift, (x - 1.0) / (x + 1.0), x);
    vec4 u = x * x;
    vec4 p = -1.4242741e-1 + u * (1.0587367e-1 + u * -6.0605239e-2);
    p = -3.3333315e-1 + u * (1.9998434e-1 + u * p);
    vec4 y = x + x * u * p;
    y = if_(shift, M_PI_4 + y, y);
    return if_(swap, M_PI_2 - y, y);
}

vec4 m_atan(vec4 v) {
    vec4 y = m_atan_ratio(abs(v), vec4(1.0));
    return if_(lessThan(v, vec4(0.0)), -y, y);
}

bvec4 m_sign_bit(vec4 v) { return lessThan(floatBitsToInt(v), ivec4(0)); }

vec4 m_atan2(vec4 v, vec4 w) {
    vec4 a = abs(v), b = abs(w);
    bvec4 infinite = equal(min(a, b), vec4(M_INF));
    vec4 y = m_atan_ratio(if_(infinite, vec4(1.0), a), if_(infinite, vec4(1.0), b));
    y = if_(equal(a, vec4(0.0)), vec4(0.0), y);
    y = if_(m_sign_bit(w), M_PI - y, y);
    y = if_(m_sign_bit(v), -y, y);
    return if_(isnan(v), v, if_(isnan(w), w, y));
}

vec4 m_tanh(vec4 v) {
    vec4 x = abs(v);
    vec4 t = m_expm1(2.0 * x);
    vec4 y = if_(greaterThan(x, vec4(10.0)), vec4(1.0), t / (t + 2.0));
    return if_(lessThan(v, vec4(0.0)), -y, y);
}

// Beyond 20 the smaller exponential is lost; half the argument twice, so that only the true value
// overflows.
vec4 m_sinh(vec4 v) {
    vec4 x = abs(v);
    vec4 t = m_expm1(x);
    vec4 h = m_exp(0.5 * x);
    vec4 y = if_(greaterThan(x, vec4(20.0)), (0.5 * h) * h, 0.5 * (t + t / (t + 1.0)));
    return if_(lessThan(v, vec4(0.0)), -y, y);
}

vec4 m_cosh(vec4 v) {
    vec4 h = m_exp(0.5 * abs(v));
    vec4 e = 0.5 * h;
    return e * h + 0.5 / h / h;
}

vec4 m_asinh(vec4 v) {
    vec4 x = abs(v);
    bvec4 large = greaterThan(x, vec4(4096.0));
    vec4 z = if_(large, vec4(1.0), x);
    vec4 u = z * z;
    vec4 y = if_(large, m_log(x) + M_LN2, m_log1p(z + u / (1.0 + sqrt(u + 1.0))));
    return if_(lessThan(v, vec4(0.0)), -y, y);
}

vec4 m_acosh(vec4 v) {
    bvec4 large = greaterThan(v, vec4(4096.0));
    vec4 t = if_(large, vec4(1.0), v - 1.0);
    vec4 y = if_(large, m_log(v) + M_LN2, m_log1p(t + sqrt(t * (t + 2.0))));
    return if_(lessThan(v, vec4(1.0)), vec4(M_NAN), y);
}

vec4 m_atanh(vec4 v) {
    vec4 x = abs(v);
    vec4 y = 0.5 * m_log1p(2.0 * x / (1.0 - x));
    y = if_(equal(x, vec4(1.0)), vec4(M_INF), y);
    return if_(lessThan(v, vec4(0.0)), -y, y);
}

// |v| < 1: v * P(v^2); up to 4: 1 - exp(Q(|v|)); beyond: 1.
vec4 m_erf(vec4 v) {
    vec4 u = v * v, x = min(abs(v), 4.0);
    vec4 p = 5.1895353e-3 + u * (-8.0208413e-4 + u * 7.8891195e-5);
    p = v * (1.1283792 + u * (-3.7612627e-1 + u * (1.1283600e-1 + u * (-2.6854445e-2 + u * p))));
    vec4 q = 2.5208257e-2 + x * (-4.2045619e-3 + x * (4.4133636e-4 + x * -2.1686850e-5));
    q = 1.8804022e-4 + x * (-1.1295784 + x * (-6.3321990e-1 + x * (-1.0841858e-1 + x * q)));
    vec4 far = 1.0 - m_exp(q);
    far = if_(lessThan(v, vec4(0.0)), -far, far);
    return if_(greaterThan(abs(v), vec4(1.0)), far, p);
}

vec4 m_sigmoid(vec4 v) { return 1.0 / (1.0 + m_exp(-v)); }

vec4 m_softplus(vec4 v) { return max(v, 0.0) + m_log1p(m_exp(-abs(v))); }

// x tanh(log(1 + e)) = x n / (n + 2) with e = exp(x), n = e (e + 2)
vec4 m_mish(vec4 v) {
    vec4 e = m_exp(min(v, 20.0));
    vec4 n = e * (e + 2.0);
    return if_(greaterThan(v, vec4(20.0)), v, v * (n / (n + 2.0)));
}

// exp(w log v): whole and fractional parts of log2 kept apart, so that a large exponent costs no
// accuracy. For v > 0, finite and normal.
vec4 m_pow_core(vec4 v, vec4 w) {
    vec4 e;
    vec4 l = m_log1p_core(m_log_parts(v, e)) * 1.4426950409;
    vec4 rough = w * (e + l);
    precise vec4 whole = roundEven(w * e);
    vec4 y = fma(w, e, -whole) + w * l;
    precise vec4 n = roundEven(y);
    vec4 rest = (y - n) * M_LN2;
    vec4 unused;
    vec4 x = 1.0 + m_exp_parts(rest, unused);
    vec4 total = clamp(whole + n, -126.0, 128.0);
    vec4 z = x * m_exp2i(unused) * m_exp2i(total - 1.0) * 2.0;
    z = if_(greaterThan(rough, vec4(128.0)), vec4(M_INF), z);
    return if_(lessThan(rough, vec4(-126.0)), vec4(0.0), z);
}

vec4 m_pow(vec4 v, vec4 w) {
    vec4 a = abs(v);
    vec4 y = m_pow_core(a, w);
    bvec4 up = greaterThan(w, vec4(0.0));
    y = if_(lessThan(a, vec4(1.1754944e-38)), if_(up, vec4(0.0), vec4(M_INF)), y);
    bvec4 infinite = equal(a, vec4(M_INF));
    y = if_(infinite, if_(up, vec4(M_INF), vec4(0.0)), y);
    y = if_(equal(a, vec4(1.0)), vec4(1.0), y);
    bvec4 odd = notEqual(floor(0.5 * w), 0.5 * w);
    vec4 root = if_(infinite, y, if_(lessThan(v, vec4(0.0)), vec4(M_NAN), y));
    vec4 minus = if_(equal(floor(w), w), if_(odd, -y, y), root);
    y = if_(m_sign_bit(v), minus, y);
    y = if_(isnan(v), v, if_(isnan(w), w, y));
    y = if_(equal(v, vec4(1.0)), v, y);
    // A subnormal exponent is a zero, as is a subnormal base.
    return if_(lessThan(abs(w), vec4(1.1754944e-38)), vec4(1.0), y);
}

#include "common/residue.glsl"

// a mod b for a >= 0, b > 0: quotients up to about 2^60. A quotient that is off by a few leaves a
// residue of either sign for the next round.
vec4 m_mod_positive(vec4 a, vec4 b) {
    vec4 r = a;
    for (int i = 0; i < 3; ++i) r = m_residue(r, roundEven(r / b), b);
    r = if_(lessThan(r, vec4(0.0)), r + b, r);
    return if_(lessThan(r, b), r, r - b);
}

vec4 m_mod_edges(vec4 v, vec4 w, vec4 y) {
    y = if_(m_sign_bit(v), -y, y);
    y = if_(isinf(w), v, y);
    bvec4 none = equal(w, vec4(0.0));
    y = if_(none, vec4(M_NAN), y);
    y = if_(isinf(v), vec4(M_NAN), y);
    return if_(isnan(v), v, if_(isnan(w), w, y));
}

vec4 m_fmod(vec4 v, vec4 w) { return m_mod_edges(v, w, m_mod_positive(abs(v), abs(w))); }

// IEEE remainder: nearest multiple, ties to even (parity from the residue modulo 2 |w|).
vec4 m_remainder(vec4 v, vec4 w) {
    bvec4 far = greaterThan(abs(w), vec4(1e38));  // twice that is no number
    vec4 unit = if_(far, vec4(0.25), vec4(1.0));
    precise vec4 b = unit * abs(w), twice = b + b;
    vec4 h = 0.5 * b;
    vec4 r = m_mod_positive(unit * abs(v), twice);
    vec4 s = r - b;
    s = if_(greaterThanEqual(s, h), s - b, s);
    vec4 y = if_(greaterThan(r, h), s, r);
    return m_mod_edges(v, w, if_(far, 4.0 * y, y));
}

// The float next to v, away from +inf.
vec4 m_below(vec4 v) {
    ivec4 bits = floatBitsToInt(v);
    return intBitsToFloat(bits + mix(ivec4(1), ivec4(-1), greaterThan(v, vec4(0.0))));
}

// floor of v / w correctly rounded, whatever the last bit of the device's division: near a whole
// number q the residue says whether the quotient is below q and by more than rounding hides.
vec4 m_floordiv(vec4 v, vec4 w) {
    vec4 d = v / w;
    vec4 q = roundEven(d);
    vec4 off = m_residue(v, q, w) / w;
    vec4 hidden = if_(equal(q, vec4(0.0)), vec4(0.0), 0.5 * (q - m_below(q)));
    vec4 y = if_(lessThan(off, -hidden), q - 1.0, q);
    return if_(lessThan(abs(d), vec4(8388608.0)), y, floor(d));
}

vec4 m_logaddexp(vec4 v, vec4 w) {
    vec4 y = max(v, w) + m_log1p(m_exp(-abs(v - w)));
    y = if_(equal(v, w), v + M_LN2, y);
    return if_(isnan(v), v, if_(isnan(w), w, y));
}

#endif
