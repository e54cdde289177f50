// From a kernel's struct to a launch.
#pragma once

#include "exec/kernels/check_cuda.h"
#include "exec/kernels/cuda_names.cuh"

namespace fusion::exec {

template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads, Kernel::blocks_per_processor) run_kernel(Kernel kernel) {
  __shared__ typename Kernel::Shared shared;
  kernel(shared);
}

/// As many blocks as the current device holds at once; the most that may wait for each other.
template <class Kernel>
std::uint32_t resident_blocks() {
  int device = 0, processors = 0, each = 0;
  check_cuda(cudaGetDevice(&device), "device");
  check_cuda(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "device");
  check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, run_kernel<Kernel>, Kernel::threads, 0), "occupancy");
  return static_cast<std::uint32_t>(processors * each);
}

template <class Kernel>
void launch(Kernel kernel, std::uint32_t blocks, cudaStream_t stream, const char* what) {
  void* arguments[] = {&kernel};
  const auto entry = reinterpret_cast<const void*>(&run_kernel<Kernel>);
  const dim3 grid(blocks), block(Kernel::threads);
  check_cuda(Kernel::cooperative ? cudaLaunchCooperativeKernel(entry, grid, block, arguments, 0, stream)
                                 : cudaLaunchKernel(entry, grid, block, arguments, 0, stream),
             what);
}

}  // namespace fusion::exec
