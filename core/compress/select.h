// The k-th largest magnitude of an array, exactly, by radix: histograms of an ever narrower range of bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/compress/buffer.h"

namespace fusion::compress {

struct Kth {
  std::uint32_t bits = 0;  ///< magnitude bits of the k-th largest
  std::size_t above = 0;   ///< values strictly greater, < k
  std::size_t equal = 0;   ///< values of that magnitude, above + equal >= k
};

/// Preconditions: 1 <= k <= values.size(), and every magnitude lies in [lowest, highest]. Linear time.
Kth kth_largest(std::span<const float> values, std::size_t k, std::uint32_t lowest, std::uint32_t highest,
                Buffer<float>& scratch);

}  // namespace fusion::compress
