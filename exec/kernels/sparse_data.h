// What the kernels for sparse messages read and write. Every pointer is to device memory.
#pragma once

#include <cstdint>

namespace fusion::exec {

/// Indices to bytes.
struct PackCall {
  const std::uint64_t* index = nullptr;  ///< ascending, below `elements`
  const std::uint64_t* count = nullptr;
  std::uint64_t elements = 0;
  std::uint8_t* bytes = nullptr;         ///< room for byte_delta_capacity(); what lies beyond `size` is without meaning
  std::uint64_t* size = nullptr;         ///< receives the number of bytes
  unsigned long long* totals = nullptr;  ///< workspace: one per block
};

/// Bytes of `count` indices below `elements`, at most.
inline std::uint64_t byte_delta_capacity(std::uint64_t count, std::uint64_t elements) { return count + elements / 255; }

/// Bytes to indices. The bytes may be hostile: nothing is written unless they hold exactly `count` indices below
/// `elements`, and nothing else.
struct UnpackCall {
  const std::uint8_t* bytes = nullptr;
  std::uint64_t size = 0, count = 0, elements = 0;
  std::uint64_t* index = nullptr;        ///< `count` of them
  std::uint32_t* valid = nullptr;        ///< receives 1 or 0
  unsigned long long* totals = nullptr;  ///< workspace: two per block
};

}  // namespace fusion::exec
