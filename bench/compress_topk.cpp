#include "bench/compress_topk.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "bench/timing.h"
#include "core/compress/index_format.h"
#include "core/compress/topk.h"

namespace fusion::bench {
namespace {

using namespace compress;

constexpr double limit_s = 5;

volatile float sink;  // keeps the read pass alive

std::uint64_t kept(std::size_t n, double keep) { return static_cast<std::uint64_t>(keep * static_cast<double>(n)); }

/// The textbook way: pairs, nth_element, sort by index.
void nth_element_baseline(std::span<const float> x, std::uint64_t k) {
  std::vector<std::pair<float, std::uint32_t>> pairs(x.size());
  for (std::uint32_t i = 0; i < x.size(); ++i) pairs[i] = {std::abs(x[i]), i};
  const auto kth = pairs.begin() + static_cast<std::ptrdiff_t>(k);
  std::nth_element(pairs.begin(), kth, pairs.end(), std::greater<>());
  std::sort(pairs.begin(), kth, [](auto& a, auto& b) { return a.second < b.second; });
  sink = pairs.front().first;
}

SelectionFigures measure_one(Target target, std::span<const float> x, std::span<const float> error,
                             std::span<float> next, std::span<float> sum, double keep, int turns) {
  const Kernels& kernel = kernels(target);
  const std::uint64_t k = kept(x.size(), keep);
  TopkWorkspace ws;
  Selection s, f;
  top_k<float>(x, k, s, ws, {.target = target});
  const float hint = s.threshold;
  top_k_feedback<float>(x, error, next, k, f, ws, {.target = target});
  const float feedback_hint = f.threshold;
  const auto t = shortest(
      {[&] { sink = kernel.read_pass(x.data(), x.size()); }, [&] { top_k<float>(x, k, s, ws, {.target = target}); },
       [&] { top_k<float>(x, k, s, ws, {.target = target, .hint = hint}); },
       [&] { kernel.accumulate(sum.data(), x.data(), x.size()); },
       [&] { top_k_feedback<float>(x, error, next, k, f, ws, {.target = target, .hint = feedback_hint}); }},
      turns, limit_s);
  return {std::string(name_of(target)), keep, t[0], t[1], t[2], t[3], t[4], 0};
}

AlignedFloats hard_input(std::string_view kind, std::size_t n) {
  std::mt19937_64 rng(11);
  std::normal_distribution<float> normal;
  AlignedFloats x(n);
  for (float& v : x) v = normal(rng);
  const auto by_magnitude = [](float a, float b) { return std::abs(a) < std::abs(b); };
  if (kind == "ascending") std::sort(x.begin(), x.end(), by_magnitude);
  if (kind == "descending") std::sort(x.rbegin(), x.rend(), by_magnitude);
  if (kind == "constant") std::fill(x.begin(), x.end(), 1.0f);
  if (kind == "few values")
    for (float& v : x) v = std::round(v);
  if (kind == "organ pipe")
    for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(std::min(i, n - i));
  if (kind == "all zero") std::fill(x.begin(), x.end(), 0.0f);
  if (kind == "nearly all zero")
    for (std::size_t i = 0; i < n; ++i) x[i] *= i % 5000 == 0 ? 1.0f : 0.0f;
  if (kind == "large only at the end")
    for (std::size_t i = 0; i < n; ++i) x[i] *= i > n - n / 40 ? 100.0f : 1e-3f;
  const SamplePositions looked_at(n);
  if (kind == "decoys where the sample looks")
    for (std::size_t i = 0; i < looked_at.count; ++i) x[looked_at[i]] = 100;
  if (kind == "zeros where the sample looks")
    for (std::size_t i = 0; i < looked_at.count; ++i) x[looked_at[i]] = 0;
  if (kind == "rising by ulps")
    for (std::size_t i = 0; i < n; ++i)
      x[i] = std::bit_cast<float>(0x3f800000u + static_cast<std::uint32_t>(i % 0x800000));
  return x;
}

std::vector<std::uint64_t> random_indices(std::size_t n, double keep) {
  std::mt19937_64 rng(12);
  std::geometric_distribution<std::uint64_t> gap(keep);
  std::vector<std::uint64_t> index;
  for (std::uint64_t i = gap(rng); i < n; i += 1 + gap(rng)) index.push_back(i);
  return index;
}

}  // namespace

std::vector<SelectionFigures> measure_selection(std::span<const float> x, std::span<const double> keeps, int turns) {
  Buffer<float> error, next, sum;
  for (auto* b : {&error, &next, &sum}) b->reserve(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    error.data()[i] = sum.data()[i] = 0.5f * x[x.size() - 1 - i];
    next.data()[i] = 0;
  }
  std::vector<SelectionFigures> figures;
  for (const double keep : keeps) {
    const double nth_s = seconds_of([&] { nth_element_baseline(x, kept(x.size(), keep)); });
    for (const Target target : supported_targets()) {
      figures.push_back(
          measure_one(target, x, error.first(x.size()), next.first(x.size()), sum.first(x.size()), keep, turns));
      figures.back().nth_element_s = nth_s;
    }
  }
  return figures;
}

std::vector<HardFigures> measure_hard_inputs(std::size_t elements, double keep, int turns) {
  const AlignedFloats gaussian = hard_input("gaussian", elements);
  std::vector<HardFigures> figures;
  for (const char* kind :
       {"ascending", "descending", "organ pipe", "constant", "few values", "all zero", "nearly all zero",
        "large only at the end", "rising by ulps", "decoys where the sample looks", "zeros where the sample looks"}) {
    const AlignedFloats x = hard_input(kind, elements);
    TopkWorkspace ws;
    Selection s;
    const std::uint64_t k = kept(elements, keep);
    const auto t =
        shortest({[&] { top_k<float>(x, k, s, ws); }, [&] { top_k<float>(gaussian, k, s, ws); }}, turns, limit_s);
    figures.push_back({kind, t[0], t[1]});
  }
  return figures;
}

double entropy_bits_per_index(double n, double k) {
  return (std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1)) / std::log(2.0) / k;
}

std::vector<IndexFigures> measure_index_formats(std::size_t elements, double keep, int turns) {
  struct Row {
    const char* name;
    IndexFormat format;
  };
  const auto index = random_indices(elements, keep);
  const auto k = static_cast<double>(index.size());
  std::vector<std::uint64_t> read(index.size());
  std::vector<IndexFigures> figures;
  for (const Row row : {Row{"raw32", IndexFormat::raw32}, Row{"byte delta", IndexFormat::byte_delta},
                        Row{"rice", IndexFormat::rice}, Row{"bitmap", IndexFormat::bitmap}}) {
    std::vector<std::byte> bytes;
    const auto t = shortest({[&] {
                               bytes.clear();
                               write_index(row.format, index, elements, 4096, bytes);
                             },
                             [&] { read_index(row.format, bytes, elements, read); }},
                            turns, limit_s);
    figures.push_back({row.name, k / t[0], k / t[1], 8 * static_cast<double>(bytes.size()) / k,
                       entropy_bits_per_index(static_cast<double>(elements), k)});
  }
  return figures;
}

}  // namespace fusion::bench
