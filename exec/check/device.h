// Device memory and times for the checker.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "exec/kernels/check_cuda.h"

namespace fusion::exec {

/// Not initialised. Not copyable.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size) : size_(size) {
    check_cuda(cudaMalloc(reinterpret_cast<void**>(&data_), std::max<std::size_t>(1, size) * sizeof(T)), "memory");
  }
  explicit DeviceArray(std::span<const T> values) : DeviceArray(values.size()) {
    check_cuda(cudaMemcpy(data_, values.data(), values.size_bytes(), cudaMemcpyHostToDevice), "upload");
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  T* data() const { return data_; }
  /// So that what a kernel leaves unwritten shows.
  void poison() { check_cuda(cudaMemset(data_, 0x5a, size_ * sizeof(T)), "poison"); }
  /// Waits for everything on the device.
  std::vector<T> download(std::size_t count) const {
    std::vector<T> out(count);
    check_cuda(cudaDeviceSynchronize(), "kernel");
    check_cuda(cudaMemcpy(out.data(), data_, count * sizeof(T), cudaMemcpyDeviceToHost), "download");
    return out;
  }
  std::vector<T> download() const { return download(size_); }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Milliseconds between two events around the call: median of many after a few warm-up calls. The argument counts
/// calls, so that small inputs can rotate through memory.
inline double median_ms(const std::function<void(int)>& enqueue, int repeats = 25) {
  cudaEvent_t begin, end;
  check_cuda(cudaEventCreate(&begin), "event");
  check_cuda(cudaEventCreate(&end), "event");
  std::vector<double> times;
  constexpr int warm_up = 5;
  for (int i = 0; i < warm_up + repeats; ++i) {
    check_cuda(cudaEventRecord(begin), "event");
    enqueue(i);
    check_cuda(cudaEventRecord(end), "event");
    check_cuda(cudaEventSynchronize(end), "kernel");
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, begin, end), "event");
    if (i >= warm_up) times.push_back(static_cast<double>(ms));
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<std::size_t>(repeats) / 2];
}

}  // namespace fusion::exec
