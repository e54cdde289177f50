#include "core/compress/topk.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/error.h"
#include "core/compress/payload.h"
#include "core/compress/select.h"

namespace fusion::compress {
namespace {

constexpr float hint_margin = 0.98f;  // gradients shrink slowly: a little below last step's threshold, most often
                                      // enough
constexpr double dense_fraction = 0.03;
constexpr std::size_t small_tensor = 4096;                 // sampling would cost more than collecting everything
constexpr std::size_t stream_from = std::size_t{4} << 20;  // elements; smaller residuals stay in cache

template <class T>
struct Source {
  const T* x;
  const float* error;  ///< or nullptr
  std::size_t n;
  float at(std::size_t i) const { return error ? to_float(x[i]) + error[i] : to_float(x[i]); }
};

auto scan_of(const Kernels& k, const float*) { return k.scan_fp32; }
auto scan_of(const Kernels& k, const Half*) { return k.scan_fp16; }
auto scan_of(const Kernels& k, const BFloat16*) { return k.scan_bf16; }

/// A threshold that slightly more than k elements reach, most probably: the sample's quantile, four standard deviations
/// of its rank lower.
template <class T>
std::uint32_t sampled_threshold(const Source<T>& in, std::size_t k, std::uint64_t attempt, TopkWorkspace& ws,
                                const Kernels& kernels) {
  if (in.n < small_tensor) return 0;
  const SamplePositions positions(in.n, attempt);
  const std::size_t size = positions.count;
  const double expected = static_cast<double>(k) / static_cast<double>(in.n) * static_cast<double>(size);
  const auto rank = static_cast<std::size_t>(expected + 4 * std::sqrt(expected) + 2);
  if (rank >= size) return 0;
  ws.sample.reserve(size);
  for (std::size_t i = 0; i < size; ++i) ws.sample.data()[i] = in.at(positions[i]);
  const Kth found = kth_largest(ws.sample.first(size), rank, 0, 0x7fffffffu, ws.scratch, kernels);
  return std::min(found.bits, infinity_bits);
}

/// The floor of the histogram bucket that holds the k-th largest: at least k elements reach it. `bits` of the magnitude
/// are known already (those of `prefix`), 11 more are counted.
template <class T>
std::uint32_t bucket_threshold(const Source<T>& in, std::size_t k, int shift, std::uint32_t prefix, bool refine) {
  std::array<std::array<std::size_t, 2048>, 2> counts{};
  std::size_t higher = 0;
  for (std::size_t i = 0; i < in.n; ++i) {
    const std::uint32_t magnitude = magnitude_bits(in.at(i));
    const std::uint32_t bucket = magnitude >> shift;
    if (!refine || bucket >> 11 == prefix)
      ++counts[i % 2][bucket & 2047];
    else
      higher += bucket >> 11 > prefix;
  }
  std::uint32_t bucket = 2048;
  for (std::size_t reached = higher; reached < k && bucket > 0;) {
    --bucket;
    reached += counts[0][bucket] + counts[1][bucket];
  }
  return (refine ? prefix << 11 | bucket : bucket) << shift;
}

template <class T>
std::uint32_t counted_threshold(const Source<T>& in, std::size_t k) {
  const std::uint32_t coarse = bucket_threshold(in, k, 20, 0, false);
  return std::min(bucket_threshold(in, k, 9, coarse >> 20, true), infinity_bits);
}

/// One selection on its way: what has been collected so far, and how.
template <class T>
class Selector {
 public:
  Selector(Source<T> in, float* residual, std::size_t k, TopkWorkspace& ws, const TopkOptions& options)
      : in_(in), residual_(residual), k_(k), ws_(ws), options_(options), kernels_(kernels(options.target)) {}

  void run(Selection& out) {
    reserve();
    if (!(k_ == 0 ? collect(infinity_bits) : collect_enough())) return report(out);
    write(out);
  }

 private:
  /// False where a value is not finite.
  bool collect_enough() {
    if (options_.hint > 0) {
      if (!collect(std::min(magnitude_bits(options_.hint * hint_margin), infinity_bits))) return false;
      if (c_.count >= k_) return trim();
    }
    for (std::uint64_t attempt = 0; attempt < 2; ++attempt) {
      if (!collect(sampled_threshold(in_, k_, attempt, ws_, kernels_))) return false;
      if (c_.count >= k_) return trim();
    }
    return collect(counted_threshold(in_, k_)) && trim();
  }

  void reserve() {
    const std::size_t room = std::min(in_.n, 2 * k_ + in_.n / 64 + 2 * scan_chunk);
    ws_.index.reserve(room + scan_slack);
    ws_.value.reserve(room + scan_slack);
    c_ = {ws_.index.data(), ws_.value.data(), 0, room};
  }

  /// Everything at or above the threshold, trimmed to the best k whenever the room is full.
  bool collect(std::uint32_t threshold) {
    c_ = {ws_.index.data(), ws_.value.data(), 0, c_.capacity};
    threshold_ = floor_ = threshold;
    std::size_t overflows = 0;
    ws_.segment_starts.clear();
    for (std::size_t base = 0; base < in_.n; base += options_.segment) {
      ws_.segment_starts.push_back(c_.count);
      Scan scan = scan_from(base);
      for (;;) {
        scan.threshold = threshold_;
        scan.dense = expects_many();
        scan.begin = scan_of(kernels_, in_.x)(scan, c_);
        if (scan.begin == scan.end) break;
        if (!make_room(++overflows)) return false;
      }
    }
    return !has_non_finite();
  }

  Scan scan_from(std::size_t base) const {
    Scan scan;
    scan.x = in_.x + base;
    scan.error = in_.error ? in_.error + base : nullptr;
    scan.residual = residual_ ? residual_ + base : nullptr;
    scan.end = std::min(options_.segment, in_.n - base);
    scan.stream = in_.n >= stream_from && reinterpret_cast<std::uintptr_t>(residual_) % 64 == 0;
    return scan;
  }

  bool expects_many() const {
    return threshold_ == 0 || static_cast<double>(k_) > dense_fraction * static_cast<double>(in_.n);
  }

  /// k elements are behind us, so that only greater ones can still matter. The threshold was far off: look elsewhere,
  /// and where that does not help either, count.
  bool make_room(std::size_t overflows) {
    constexpr std::size_t samples = 4;
    if (has_non_finite() || !trim()) return false;
    threshold_ = smallest_ + 1;
    if (overflows < samples) threshold_ = std::max(threshold_, sampled_threshold(in_, k_, overflows, ws_, kernels_));
    if (overflows == samples) threshold_ = std::max(threshold_, counted_threshold(in_, k_));
    return true;
  }

  bool has_non_finite() {
    most_ = kernels_.max_magnitude(c_.value, c_.count);
    return most_ >= infinity_bits;
  }

  /// Leaves the best k of the candidates, of which there are at least k and none that is not finite.
  bool trim() {
    if (k_ == 0) return c_.count == 0;
    const Kth kth = kth_largest({c_.value, c_.count}, k_, floor_, most_, ws_.scratch, kernels_);
    smallest_ = kth.bits;
    if (c_.count == k_) return true;
    const std::size_t cut = kth.above + kth.equal == k_ ? c_.count : after_tie(kth);
    std::size_t out = 0;
    for (std::size_t s = 0; s < ws_.segment_starts.size(); ++s) {
      const std::size_t begin = ws_.segment_starts[s];
      const std::size_t end = s + 1 < ws_.segment_starts.size() ? ws_.segment_starts[s + 1] : c_.count;
      if (residual_) restore(s * options_.segment, begin, end, cut, kth.bits);
      ws_.segment_starts[s] = out;
      const std::size_t middle = std::clamp(cut, begin, end);
      out = kernels_.keep(c_, begin, middle, kth.bits, out);
      out = kernels_.keep(c_, middle, end, kth.bits + 1, out);
    }
    check(out == k_, "top-k kept another number of elements than asked for");
    c_.count = out;
    floor_ = smallest_;
    return true;
  }

  /// The position after the last element of the k-th magnitude that is kept.
  std::size_t after_tie(const Kth& kth) const {
    std::size_t left = k_ - kth.above, i = 0;
    while (left > 0) left -= magnitude_bits(c_.value[i++]) == kth.bits;
    return i;
  }

  /// Puts candidates that are not kept back into the residual.
  void restore(std::size_t base, std::size_t begin, std::size_t end, std::size_t cut, std::uint32_t smallest) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint32_t magnitude = magnitude_bits(c_.value[i]);
      if (magnitude < smallest || (magnitude == smallest && i >= cut)) residual_[base + c_.index[i]] = c_.value[i];
    }
  }

  void report(Selection& out) {
    out.index.clear();
    out.value.clear();
    for (std::size_t i = 0, s = 0; i < c_.count; ++i) {
      while (s + 1 < ws_.segment_starts.size() && ws_.segment_starts[s + 1] <= i) ++s;
      if (magnitude_bits(c_.value[i]) < infinity_bits) continue;
      out.not_finite = s * options_.segment + c_.index[i];
      return;
    }
    check(false, "a value that is not finite was seen and lost");
  }

  void write(Selection& out) const {
    out.index.resize(c_.count);
    out.value.assign(c_.value, c_.value + c_.count);
    out.threshold = k_ == 0 ? 0.0f : std::bit_cast<float>(smallest_);
    for (std::size_t s = 0; s < ws_.segment_starts.size(); ++s) {
      const std::size_t end = s + 1 < ws_.segment_starts.size() ? ws_.segment_starts[s + 1] : c_.count;
      for (std::size_t i = ws_.segment_starts[s]; i < end; ++i) out.index[i] = s * options_.segment + c_.index[i];
    }
  }

  Source<T> in_;
  float* residual_;
  std::size_t k_;
  TopkWorkspace& ws_;
  const TopkOptions& options_;
  const Kernels& kernels_;
  Candidates c_{};
  std::uint32_t threshold_ = 0;            ///< of the scan, raised on the way
  std::uint32_t floor_ = 0;                ///< no candidate is below
  std::uint32_t most_ = 0, smallest_ = 0;  ///< largest magnitude seen; the k-th largest
};

template <class T>
void select(Source<T> in, float* residual, std::uint64_t k, Selection& out, TopkWorkspace& ws,
            const TopkOptions& options) {
  out.elements = in.n;
  out.not_finite.reset();
  out.threshold = 0;
  Selector<T>(in, residual, std::min<std::size_t>(k, in.n), ws, options).run(out);
}

}  // namespace

SamplePositions::SamplePositions(std::size_t elements, std::uint64_t attempt)
    : count(std::clamp<std::size_t>(elements / 256, 1024, 16384)), stride(elements / count), salt(attempt << 32) {}

std::size_t SamplePositions::operator[](std::size_t i) const { return i * stride + mix(salt + i) % stride; }

template <class T>
void top_k(std::span<const T> x, std::uint64_t k, Selection& out, TopkWorkspace& ws, const TopkOptions& options) {
  select(Source<T>{x.data(), nullptr, x.size()}, nullptr, k, out, ws, options);
}

template <class T>
void top_k_feedback(std::span<const T> x, std::span<const float> residual, std::span<float> next_residual,
                    std::uint64_t k, Selection& out, TopkWorkspace& ws, const TopkOptions& options) {
  check(x.size() == residual.size() && x.size() == next_residual.size(), "tensor and residuals differ in size");
  check(residual.data() + residual.size() <= next_residual.data() ||
            next_residual.data() + next_residual.size() <= residual.data(),
        "the two residuals overlap");
  select(Source<T>{x.data(), residual.data(), x.size()}, next_residual.data(), k, out, ws, options);
}

template void top_k(std::span<const float>, std::uint64_t, Selection&, TopkWorkspace&, const TopkOptions&);
template void top_k(std::span<const Half>, std::uint64_t, Selection&, TopkWorkspace&, const TopkOptions&);
template void top_k(std::span<const BFloat16>, std::uint64_t, Selection&, TopkWorkspace&, const TopkOptions&);
template void top_k_feedback(std::span<const float>, std::span<const float>, std::span<float>, std::uint64_t,
                             Selection&, TopkWorkspace&, const TopkOptions&);
template void top_k_feedback(std::span<const Half>, std::span<const float>, std::span<float>, std::uint64_t, Selection&,
                             TopkWorkspace&, const TopkOptions&);
template void top_k_feedback(std::span<const BFloat16>, std::span<const float>, std::span<float>, std::uint64_t,
                             Selection&, TopkWorkspace&, const TopkOptions&);

}  // namespace fusion::compress
