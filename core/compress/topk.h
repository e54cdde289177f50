// Exact top-k by magnitude, at about the speed of reading the tensor.
//
// Result: exactly k elements (all n where k > n), those of largest |x|, ties to the lowest index, in index order; zeros
// fill up where fewer than k elements are non-zero. Every instruction set gives the same bits.
//
// Method: a threshold (last step's, or estimated from a sample so that a little more than k elements reach it), one
// vector pass that collects what reaches the threshold, an exact trim of the surplus. A bad threshold costs time, never
// exactness: too low, and the collection is trimmed on the way and the threshold raised; too high, and another sample
// is taken elsewhere, then a histogram of all elements gives a threshold that holds. At most about five passes.
//
// A value that is not finite (NaN, infinity, or a sum x + e that overflows) is reported with its index, and nothing is
// selected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/compress/buffer.h"
#include "core/compress/half.h"
#include "core/compress/kernels.h"

namespace fusion::compress {

/// k of n elements.
struct Selection {
  std::uint64_t elements = 0;                    ///< n
  std::vector<std::uint64_t> index = {};         ///< ascending, below n
  std::vector<float> value = {};                 ///< as long as `index`
  float threshold = 0;                           ///< the smallest magnitude kept: the next step's hint
  std::optional<std::uint64_t> not_finite = {};  ///< the first such element; then nothing is selected
  bool operator==(const Selection&) const = default;
};

struct TopkOptions {
  Target target = best_target();
  /// The threshold of the last step on this tensor (`Selection::threshold`); 0: estimate one. Changes time, never the
  /// result.
  float hint = 0;
  /// Elements that 32-bit positions count before a new segment starts; smaller ones are for tests.
  std::size_t segment = std::size_t{1} << 31;
};

/// Memory that a selection needs beside its input. Reuse it from step to step; its contents carry no meaning over.
struct TopkWorkspace {
  Buffer<std::uint32_t> index;
  Buffer<float> value, sample, scratch;
  std::vector<std::size_t> segment_starts;  ///< candidates before each segment
};

/// The k largest of x. T: float, Half, BFloat16.
template <class T>
void top_k(std::span<const T> x, std::uint64_t k, Selection& out, TopkWorkspace&, const TopkOptions& = {});

/// Error feedback: selects from x + residual and leaves in `next_residual` what was not selected, so that selection +
/// next_residual == x + residual exactly. The two residuals must not overlap, and all three spans are of one size.
/// Where a value is not finite, the contents of `next_residual` are unspecified: keep `residual`.
template <class T>
void top_k_feedback(std::span<const T> x, std::span<const float> residual, std::span<float> next_residual,
                    std::uint64_t k, Selection& out, TopkWorkspace&, const TopkOptions& = {});

/// Where the estimate of a threshold looks: one position at random per stride, so that no period of the data can hide
/// from it. Public for those who want to mislead it.
struct SamplePositions {
  std::size_t count, stride;
  std::uint64_t salt;  ///< each further attempt looks elsewhere
  explicit SamplePositions(std::size_t elements, std::uint64_t attempt = 0);
  std::size_t operator[](std::size_t i) const;
};

}  // namespace fusion::compress
