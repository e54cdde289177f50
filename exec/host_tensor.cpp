#include "exec/host_tensor.h"

#include <bit>

#include "core/base/error.h"

namespace fusion::exec {

static_assert(std::endian::native == std::endian::little, "wire and files are little-endian, written as they lie");

namespace {

template <class T>
std::span<T> values_of(HostTensor& tensor, DType dtype) {
  check(tensor.dtype == dtype, "a tensor of another dtype");
  return {reinterpret_cast<T*>(tensor.data.data()), tensor.data.size() / sizeof(T)};
}

template <class T>
std::span<const T> values_of(const HostTensor& tensor, DType dtype) {
  check(tensor.dtype == dtype, "a tensor of another dtype");
  return {reinterpret_cast<const T*>(tensor.data.data()), tensor.data.size() / sizeof(T)};
}

}  // namespace

HostTensor HostTensor::zeros(Shape shape, DType dtype) {
  check(dtype == DType::fp32 || dtype == DType::int64, "host tensors are fp32 or int64");
  const auto bytes = static_cast<std::size_t>(num_elements(shape) * size_of(dtype));
  return {std::move(shape), dtype, std::vector<std::byte>(bytes)};
}

std::span<float> HostTensor::floats() { return values_of<float>(*this, DType::fp32); }
std::span<const float> HostTensor::floats() const { return values_of<float>(*this, DType::fp32); }
std::span<std::int64_t> HostTensor::integers() { return values_of<std::int64_t>(*this, DType::int64); }
std::span<const std::int64_t> HostTensor::integers() const { return values_of<std::int64_t>(*this, DType::int64); }

}  // namespace fusion::exec
