// Between host tensors and libtorch's. On the CPU memory is shared or moved, never copied on the way in; to and from a
// GPU it passes through pinned memory.
#pragma once

#include <ATen/core/Tensor.h>

#include "exec/host_tensor.h"

namespace fusion::exec {

/// "cpu", "cuda", "cuda:1"; empty: cpu. Throws InputError for another name, and for a GPU that is not there.
at::Device device_of(const std::string& name);

/// The same memory, which must outlive it.
at::Tensor alias_of(HostTensor&);

/// Takes the memory along, or copies it to the GPU.
at::Tensor take(HostTensor, const at::Device&);
at::Tensor take(std::vector<float>, at::IntArrayRef shape, const at::Device&);

/// A copy, in row-major order.
HostTensor to_host(const at::Tensor&);

/// Overwrites `to`, which is on a GPU, with what is in host memory.
void upload(const HostTensor&, at::Tensor& to);

}  // namespace fusion::exec
