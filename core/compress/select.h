// The k-th largest magnitude of an array, exactly: a sample brackets it, one vector pass extracts the bracket (Floyd
// and Rivest, "Expected time bounds for selection", CACM 18, 1975); where the sample misleads, histograms of an ever
// narrower range of bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/compress/buffer.h"
#include "core/compress/kernels.h"

namespace fusion::compress {

struct Kth {
  std::uint32_t bits = 0;  ///< magnitude bits of the k-th largest
  std::size_t above = 0;   ///< values strictly greater, < k
  std::size_t equal = 0;   ///< values of that magnitude, above + equal >= k
};

/// Preconditions: 1 <= k <= values.size(), and every magnitude lies in [lowest, highest]. Linear time.
Kth kth_largest(std::span<const float> values, std::size_t k, std::uint32_t lowest, std::uint32_t highest,
                Buffer<float>& scratch, const Kernels&);

}  // namespace fusion::compress
