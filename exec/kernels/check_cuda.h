// From CUDA's return codes to exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "core/base/error.h"

namespace fusion::exec {

/// Throws RuntimeFault "[operation] CUDA: reason".
inline void check_cuda(cudaError_t code, const char* operation) {
  if (code != cudaSuccess) throw RuntimeFault(std::string("[") + operation + "] CUDA: " + cudaGetErrorString(code));
}

}  // namespace fusion::exec
