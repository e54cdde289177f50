#include "core/compress/select.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

#include "core/compress/kernels.h"

namespace fusion::compress {
namespace {

constexpr int radix_bits = 11;
constexpr std::size_t small = 512;  // partitioned rather than counted
using Histogram = std::array<std::uint32_t, std::size_t{1} << radix_bits>;

/// Two tables by turns: neighbours often share a bucket, and a single counter would wait for itself.
Histogram count(std::span<const float> values, std::uint32_t lowest, int shift) {
  Histogram even{}, odd{};
  std::size_t i = 0;
  for (; i + 2 <= values.size(); i += 2) {
    ++even[(magnitude_bits(values[i]) - lowest) >> shift];
    ++odd[(magnitude_bits(values[i + 1]) - lowest) >> shift];
  }
  if (i < values.size()) ++even[(magnitude_bits(values[i]) - lowest) >> shift];
  for (std::size_t b = 0; b < even.size(); ++b) even[b] += odd[b];
  return even;
}

Kth by_partition(std::span<const float> values, std::size_t k) {
  std::array<std::uint32_t, small> bits;
  const auto end = std::transform(values.begin(), values.end(), bits.begin(), magnitude_bits);
  const auto kth = bits.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(bits.begin(), kth, end, std::greater<>());
  const auto above = std::count_if(bits.begin(), kth, [&](std::uint32_t b) { return b > *kth; });
  const auto equal = std::count(bits.begin(), end, *kth);
  return {*kth, static_cast<std::size_t>(above), static_cast<std::size_t>(equal)};
}

/// Values within [lowest, highest], in order; `out` may be where they stand already.
std::span<const float> within(std::span<const float> values, std::uint32_t lowest, std::uint32_t highest, float* out) {
  std::size_t kept = 0;
  for (const float v : values) {
    out[kept] = v;
    kept += magnitude_bits(v) - lowest <= highest - lowest;
  }
  return {out, kept};
}

}  // namespace

Kth kth_largest(std::span<const float> values, std::size_t k, std::uint32_t lowest, std::uint32_t highest,
                Buffer<float>& scratch) {
  std::size_t above = 0;
  for (;;) {
    if (values.size() <= small) {
      const Kth found = by_partition(values, k - above);
      return {found.bits, above + found.above, found.equal};
    }
    const int shift = std::max(0, static_cast<int>(std::bit_width(highest - lowest)) - radix_bits);
    const Histogram histogram = count(values, lowest, shift);
    std::size_t bucket = (highest - lowest) >> shift;
    while (above + histogram[bucket] < k) above += histogram[bucket--];
    lowest += static_cast<std::uint32_t>(bucket << shift);
    highest = std::min(highest, lowest + ((1u << shift) - 1));
    if (lowest == highest) return {lowest, above, histogram[bucket]};
    scratch.reserve(values.size() + 1);  // one more: `within` writes before it knows
    values = within(values, lowest, highest, scratch.data());
  }
}

}  // namespace fusion::compress
