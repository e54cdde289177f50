// What the kernels for blockwise integers read and write (formats: core/compress/quantise.h). Pointers are to device
// memory.
#pragma once

#include <cstdint>

namespace fusion::exec {

/// A payload is the scales and then the codes: `codes` may follow `scales` at once.
struct QuantiseCall {
  const float* x = nullptr;
  std::uint64_t n = 0;
  float* scales = nullptr;        ///< one per block
  std::uint8_t* codes = nullptr;  ///< n, or half of it rounded up for int4; aligned to 4 bytes
  float* decoded = nullptr;       ///< or null: receives what the reader will see
  /// Receives the complement of the first index whose value is not finite, where there is one: then scales and codes
  /// have no meaning. Zero before the call.
  unsigned long long* not_finite = nullptr;
  bool stochastic = false;  ///< round at random
  std::uint64_t key = 0;    ///< of PositionalRandom
};

struct DequantiseCall {
  const float* scales = nullptr;
  const std::uint8_t* codes = nullptr;  ///< aligned to 4 bytes
  std::uint64_t n = 0;
  float* out = nullptr;
  /// Receives 1 where a scale is negative or not a number: then `out` has no meaning. Zero before the call.
  std::uint32_t* invalid = nullptr;
};

}  // namespace fusion::exec
