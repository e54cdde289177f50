// A tensor in host memory: what crosses between backends, codecs, transports and files. No framework knows it, and it
// knows none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/graph/graph.h"

namespace fusion::exec {

/// Row-major values of one dtype. fp32 or int64; 16-bit values exist only on the wire.
struct HostTensor {
  Shape shape;
  DType dtype = DType::fp32;
  std::vector<std::byte> data;  ///< num_elements(shape) x size_of(dtype)

  static HostTensor zeros(Shape, DType = DType::fp32);
  std::span<float> floats();  ///< precondition: fp32
  std::span<const float> floats() const;
  std::span<std::int64_t> integers();  ///< precondition: int64
  std::span<const std::int64_t> integers() const;
  bool operator==(const HostTensor&) const = default;
};

}  // namespace fusion::exec
