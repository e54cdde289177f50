#include "core/compress/select.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>

namespace fusion::compress {
namespace {

constexpr int radix_bits = 11;
constexpr std::size_t small = 512;  // partitioned rather than counted
using Histogram = std::array<std::uint32_t, std::size_t{1} << radix_bits>;

Kth by_partition(std::span<const float> values, std::size_t k) {
  std::array<std::uint32_t, small> bits{};
  const auto end = std::transform(values.begin(), values.end(), bits.begin(), magnitude_bits);
  const auto kth = bits.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(bits.begin(), kth, end, std::greater<>());
  const auto above = std::count_if(bits.begin(), kth, [&](std::uint32_t b) { return b > *kth; });
  const auto equal = std::count(bits.begin(), end, *kth);
  return {*kth, static_cast<std::size_t>(above), static_cast<std::size_t>(equal)};
}

/// Magnitudes that the k-th largest lies between, most probably: sample quantiles, four standard deviations apart from
/// its rank.
struct Bracket {
  std::uint32_t lowest, highest;
};

Bracket sampled_bracket(std::span<const float> values, std::size_t k, Bracket range) {
  std::array<std::uint32_t, small> sample{};
  const std::size_t stride = values.size() / small;
  for (std::size_t i = 0; i < small; ++i) sample[i] = magnitude_bits(values[i * stride]);
  const double expected = static_cast<double>(k) / static_cast<double>(values.size()) * small;
  const double margin = 4 * std::sqrt(expected * (1 - expected / small)) + 2;
  const auto ranked = [&](double rank) {
    const auto nth = sample.begin() + static_cast<std::ptrdiff_t>(rank);
    std::nth_element(sample.begin(), nth, sample.end(), std::greater<>());
    return *nth;
  };
  if (expected - margin >= 0) range.highest = ranked(expected - margin);
  if (expected + margin < small) range.lowest = ranked(expected + margin);
  return range;
}

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

/// The bucket of the k-th largest.
Bracket counted_bracket(std::span<const float> values, std::size_t k, Bracket range) {
  const int shift = std::max(0, static_cast<int>(std::bit_width(range.highest - range.lowest)) - radix_bits);
  const Histogram histogram = count(values, range.lowest, shift);
  std::size_t bucket = (range.highest - range.lowest) >> shift;
  for (std::size_t above = histogram[bucket]; above < k; above += histogram[bucket]) --bucket;
  const std::uint32_t lowest = range.lowest + static_cast<std::uint32_t>(bucket << shift);
  return {lowest, std::min(range.highest, lowest + ((1u << shift) - 1))};
}

}  // namespace

Kth kth_largest(std::span<const float> values, std::size_t k, std::uint32_t lowest, std::uint32_t highest,
                Buffer<float>& scratch, const Kernels& kernels) {
  Bracket range{lowest, highest};
  std::size_t above = 0;
  scratch.reserve(values.size() + scan_slack);
  for (bool sample = true; values.size() > small; sample = false) {
    const auto narrow = (sample ? sampled_bracket : counted_bracket)(values, k - above, range);
    const Extract part = kernels.extract(values.data(), values.size(), narrow.lowest, narrow.highest, scratch.data());
    if (above + part.above >= k || above + part.above + part.kept < k) continue;  // the sample misled
    above += part.above;
    range = narrow;
    values = scratch.first(part.kept);
    if (range.lowest == range.highest) return {range.lowest, above, part.kept};
  }
  const Kth found = by_partition(values, k - above);
  return {found.bits, above + found.above, found.equal};
}

}  // namespace fusion::compress
