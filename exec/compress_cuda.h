// The compressors on a GPU: the same bits as core/compress, on device memory. Every function enqueues work on a stream
// and returns; counts and results stay in device memory, so that a step needs no synchronisation with the host and can
// be captured in a graph. Where the build has no CUDA, `cuda_missing` says so and the others throw RuntimeFault; so
// they do where a CUDA call fails.
//
// Not here: memory management, host copies, the header of a message (core/compress/wire.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "exec/kernels/quantise_data.h"
#include "exec/kernels/sparse_data.h"
#include "exec/kernels/topk_data.h"

struct CUstream_st;

namespace fusion::exec {

using CudaStream = CUstream_st*;

/// Why no kernel can run here, or empty where one can.
std::string cuda_missing();

/// What a tensor's selection needs on the current device. Make it once.
struct TopkPlan {
  std::uint64_t n = 0, k = 0;  ///< k <= n
  std::uint32_t blocks = 0;
  std::size_t workspace_bytes = 0;
};

/// T: float, compress::Half or compress::BFloat16.
template <class T>
TopkPlan plan_top_k(std::uint64_t n, std::uint64_t k);

/// Before a workspace's first use, and to forget the last call's threshold (which changes time, never the result). Each
/// tensor has a workspace of its own, aligned to 256 bytes, used by one call at a time.
void reset_top_k(const TopkPlan&, std::byte* workspace, CudaStream);

/// The k largest of x, or of x + residual. `next_residual` receives what was not selected; where a value is not finite,
/// nothing is selected and it receives `residual`. The two must not overlap; both null without error feedback. `index`
/// and `value` have room for k.
template <class T>
struct TopkTensors {
  const T* x = nullptr;
  const float* residual = nullptr;
  float* next_residual = nullptr;
  std::uint64_t* index = nullptr;
  float* value = nullptr;
  TopkResult* result = nullptr;
};
template <class T>
void top_k(const TopkPlan&, const TopkTensors<T>&, std::byte* workspace, CudaStream);

/// tensor[index[i]] = value[i] for i < *count, after zeros everywhere; or adds value[i].
void scatter_into_zeros(const std::uint64_t* index, const float* value, const std::uint64_t* count, float* tensor,
                        std::uint64_t n, CudaStream);
void scatter_add(const std::uint64_t* index, const float* value, const std::uint64_t* count, float* tensor, CudaStream);

/// Workspace of the two below, in bytes, aligned to 8.
std::size_t byte_delta_workspace_bytes();
/// `totals` of the call is the workspace.
void pack_byte_delta(const PackCall&, CudaStream);
void unpack_byte_delta(const UnpackCall&, CudaStream);

/// Blockwise integers (core/compress/quantise.h). These set `not_finite` and `invalid` to zero first.
void quantise_int8(const QuantiseCall&, CudaStream);
void quantise_int4(const QuantiseCall&, CudaStream);
void dequantise_int8(const DequantiseCall&, CudaStream);
void dequantise_int4(const DequantiseCall&, CudaStream);

}  // namespace fusion::exec
