// The order in which elements are chosen. LARGEST 1: larger ones first, otherwise smaller ones. NaN is
// larger than any number, or with NAN_FIRST comes first either way (last where NAN_LAST is not 0).
//
// Before the include: common/tensor.glsl, specialization constant LARGEST (and NAN_LAST).

bool is_nan(float v) { return isnan(v); }
bool is_nan(int v) { return false; }

bool better(SCALAR a, SCALAR b) {
    bool nan_a = is_nan(a), nan_b = is_nan(b);
#ifdef NAN_FIRST
    if (nan_a || nan_b) return NAN_LAST != 0 ? nan_b && !nan_a : nan_a && !nan_b;
#else
    if (nan_a || nan_b) return LARGEST != 0 ? nan_a && !nan_b : nan_b && !nan_a;
#endif
    return LARGEST != 0 ? a > b : a < b;
}
