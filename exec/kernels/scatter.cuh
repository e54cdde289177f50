// Puts a sparse message's values to their places in a dense tensor, or adds them to what is there.
//
// Two numbers at n = 10^8 fp32, k = 1 %: `put` into a tensor that was filled with zeros writes 4n = 400 MB (the fill;
// 93 us at 4.3 TB/s) and then reads 12k = 12 MB and writes k scattered values, each a 32-byte sector: 64 MB with its
// read. Indices of one message differ, so no two threads meet.
#pragma once

#include "exec/kernels/device.cuh"

namespace fusion::exec {

struct ScatterKernel {
  static constexpr unsigned threads = 256;
  static constexpr unsigned blocks_per_processor = 8;
  static constexpr bool cooperative = false;
  struct Shared {};

  const std::uint64_t* index = nullptr;  ///< below the tensor's size, no two alike
  const float* value = nullptr;
  const std::uint64_t* count = nullptr;  ///< in device memory, for the host need not know it
  float* tensor = nullptr;
  bool add = false;

  __device__ void operator()(Shared&) const {
    const Count n = *count;
    for (Count i = Count{blockIdx.x} * threads + threadIdx.x; i < n; i += Count{gridDim.x} * threads)
      tensor[index[i]] = add ? tensor[index[i]] + value[i] : value[i];
  }
};

}  // namespace fusion::exec
