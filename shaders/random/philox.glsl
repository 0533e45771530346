// Words of 32 random bits: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011). See vknn/ops/random.py.

uvec4 philox_of(uvec4 c, uvec2 key) {
    for (int i = 0; i < 10; ++i) {
        uint left_high, left_low, right_high, right_low;
        umulExtended(0xD2511F53u, c.x, left_high, left_low);
        umulExtended(0xCD9E8D57u, c.z, right_high, right_low);
        c = uvec4(right_high ^ c.y ^ key.x, right_low, left_high ^ c.w ^ key.y, left_low);
        key += uvec2(0x9E3779B9u, 0xBB67AE85u);
    }
    return c;
}

uvec4 philox(uint block, uint draw, uvec2 key) { return philox_of(uvec4(block, draw, 0u, 0u), key); }

// From 0 to less than 1, in steps of 2^-24.
vec4 fractions(uvec4 words) { return vec4(words >> 8) * (1.0 / 16777216.0); }
