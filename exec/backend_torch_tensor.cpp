#include "exec/backend_torch_tensor.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <torch/cuda.h>

#include <memory>

#include "core/base/error.h"

namespace fusion::exec {
namespace {

at::TensorOptions options_of(DType dtype) { return at::dtype(dtype == DType::int64 ? at::kLong : at::kFloat); }

/// A tensor on memory that lives as long as it does.
template <class T>
at::Tensor adopt(std::vector<T> data, at::IntArrayRef shape, DType dtype) {
  const auto owner = std::make_shared<std::vector<T>>(std::move(data));
  return at::from_blob(
      owner->data(), shape, [owner](void*) {}, options_of(dtype));
}

at::Tensor moved(const at::Tensor& host, const at::Device& device) {
  if (device.is_cpu()) return host;
  return host.pin_memory().to(at::TensorOptions().device(device), /*non_blocking=*/true);
}

[[noreturn]] void refuse(const std::string& name, const std::string& message) {
  throw InputError("", "device", in_quotes(name) + ": " + message);
}

}  // namespace

at::Device device_of(const std::string& name) {
  if (name.empty() || name == "cpu") return at::Device(at::kCPU);
  const bool is_cuda = name == "cuda" || (name.starts_with("cuda:") && name.size() > 5 && name.size() <= 8 &&
                                          name.find_first_not_of("0123456789", 5) == std::string::npos);
  if (!is_cuda) refuse(name, "\"cpu\", \"cuda\" or \"cuda:N\" is wanted");
  if (!torch::cuda::is_available()) refuse(name, "this libtorch finds no CUDA device");
  const int index = name == "cuda" ? 0 : std::stoi(name.substr(5));
  const auto count = static_cast<int>(torch::cuda::device_count());
  if (index >= count) refuse(name, "there are " + std::to_string(count) + " CUDA devices, counted from 0");
  return {at::kCUDA, static_cast<at::DeviceIndex>(index)};
}

at::Tensor alias_of(HostTensor& tensor) {
  return at::from_blob(tensor.data.data(), tensor.shape, options_of(tensor.dtype));
}

at::Tensor take(HostTensor tensor, const at::Device& device) {
  return moved(adopt(std::move(tensor.data), tensor.shape, tensor.dtype), device);
}

at::Tensor take(std::vector<float> values, at::IntArrayRef shape, const at::Device& device) {
  return moved(adopt(std::move(values), shape, DType::fp32), device);
}

HostTensor to_host(const at::Tensor& tensor) {
  at::Tensor host = tensor.detach().contiguous();
  if (!host.device().is_cpu()) {
    const at::Tensor pinned = at::empty(host.sizes(), at::dtype(host.scalar_type()).pinned_memory(true));
    host = pinned.copy_(host);
  }
  const auto* bytes = static_cast<const std::byte*>(host.data_ptr());
  return {
      host.sizes().vec(), host.scalar_type() == at::kLong ? DType::int64 : DType::fp32, {bytes, bytes + host.nbytes()}};
}

void upload(const HostTensor& from, at::Tensor& to) {
  const at::Tensor host = alias_of(const_cast<HostTensor&>(from));  // libtorch knows no const memory; it is only read
  to.copy_(host.pin_memory(), /*non_blocking=*/true);
}

}  // namespace fusion::exec
