// Places or samples of a bin of a region along an axis (formulas: vknn/ops/pooling/roi_pooling.py).

#include "pooling/roi_rounding.glsl"

// 0 RoiAlign, 1 RoiAlign with bins clipped to the image, 2 MaxRoiPool, 3 PositionSensitiveRoiPool
layout(constant_id = 10) const int KIND = 0;
layout(constant_id = 11) const int RATIO = 0;    // samples of a bin along an axis; 0: its ceiling
layout(constant_id = 12) const int ALIGNED = 0;
layout(constant_id = 15) const int WHOLE = 0;    // MaxRoiPool in whole numbers
layout(constant_id = 16) const int LARGEST = 0;  // RoiAlign: the largest weighted neighbour, not the mean

const float FAR = 16777216.0;

struct Bin {
    int first, last;  // samples, or places, from `first` to `last` - 1
    float start;      // RoiAlign: sample b lies at start + (b + 0.5) * width / count
    float width;
    float count;      // what a sum is divided by
};

// n * length / bins without overflow; `up`: the ceiling.
int share_of(int n, int length_, int bins, bool up) {
    int each = length_ / bins, rest = n * (length_ - each * bins);
    return n * each + (up ? rest + bins - 1 : rest) / bins;
}

// Bin `number` of `bins` along an axis `size` long, of a region from `low` to `high`. `share`: what its
// size is multiplied by to give a bin's; 0: it is divided by the number of bins.
Bin bin_of(float low, float high, float scale, float share, int number, int bins, int size) {
    float n = float(number), length_ = float(size);
    Bin bin = Bin(0, 0, 0.0, 0.0, 1.0);
    if (WHOLE != 0) {
        int begin = int(clamp(rounded(low * scale), -FAR, FAR));
        int extent = max(int(clamp(rounded(high * scale), -FAR, FAR)) - begin + 1, 1);
        bin.first = clamp(begin + share_of(number, extent, bins, false), 0, size);
        bin.last = clamp(begin + share_of(number + 1, extent, bins, true), 0, size);
        return bin;
    }
    if (KIND >= 2) {
        precise float extent, from, to;
        if (KIND == 2) {
            low = rounded(low * scale);
            high = rounded(high * scale);
            extent = max(high - low + 1.0, 1.0);
        } else {
            low = rounded(low) * scale;
            high = rounded(high + 1.0) * scale;
            extent = max(high - low, 0.1);
        }
        precise float width = share > 0.0 ? extent * share : divided(extent, float(bins));
        if (KIND == 2) {
            from = low + floor(n * width);
            to = low + ceil((n + 1.0) * width);
        } else {
            from = floor(low + n * width);
            to = ceil(low + (n + 1.0) * width);
        }
        // A scale may take corners beyond float32; where no number is left, bins are empty.
        if (isnan(high - low) || isnan(from) || isnan(to)) return bin;
        bin.first = int(clamp(from, 0.0, length_));
        bin.last = int(clamp(to, 0.0, length_));
        bin.count = float(max(bin.last - bin.first, 1));
        return bin;
    }
    precise float begin = low * scale, end = high * scale;
    if (ALIGNED != 0) {
        begin -= 0.5;
        end -= 0.5;
    }
    precise float whole = ALIGNED != 0 ? end - begin : max(end - begin, 1.0);
    bin.width = divided(whole, float(bins));
    precise float start = begin + n * bin.width;
    precise float extent = bin.width;
    if (KIND == 1) {
        precise float stop = begin + (n + 1.0) * bin.width;
        if (isnan(start) || isnan(stop)) return bin;
        start = clamp(start, 0.0, length_);
        extent = clamp(stop, 0.0, length_) - start;
        if (extent <= 0.0) return bin;
    }
    bin.start = start;
    float count = RATIO > 0 ? float(RATIO) : min(ceil(extent), FAR);
    if (count < 1.0) return bin;
    bin.count = count;
    bin.last = int(count);
    if (KIND == 0 && RATIO == 0) {
        // Only those that may lie within the image: a region may be far larger than that.
        float step_ = bin.width / count;
        bin.first = int(clamp((-1.0 - start) / step_ - 2.0, 0.0, count));
        bin.last = int(clamp((length_ - start) / step_ + 2.0, 0.0, count));
    }
    return bin;
}

// A sample's place, the place behind it and its share; false: beyond the image.
bool sample_at(Bin bin, int b, int size, out int first, out int second, out float share) {
    precise float place = bin.start + (float(b) + 0.5) * bin.width / bin.count;
    bool inside = KIND == 1 || (place >= -1.0 && place <= float(size));
    place = clamp(place, 0.0, float(size));
    first = min(int(place), size - 1);
    second = min(first + 1, size - 1);
    share = first < size - 1 ? place - float(first) : 0.0;
    return inside;
}
