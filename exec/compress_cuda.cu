// Launches the kernels of exec/kernels.
#include "exec/compress_cuda.h"

#include <algorithm>

#include "exec/kernels/launch.cuh"
// Kernels take their names from launch.cuh.
#include "exec/kernels/byte_delta.cuh"
#include "exec/kernels/quantise.cuh"
#include "exec/kernels/scatter.cuh"
#include "exec/kernels/topk.cuh"

namespace fusion::exec {
namespace {

template <class Format>
void quantise(const QuantiseCall& call, cudaStream_t stream) {
  using Kernel = QuantiseKernel<Format>;
  check_cuda(cudaMemsetAsync(call.not_finite, 0, sizeof *call.not_finite, stream), "quantise");
  launch(Kernel{call, is_aligned(call.x, 16) && is_aligned(call.decoded, 16)}, resident_blocks<Kernel>(), stream,
         "quantise");
}

template <class Format>
void dequantise(const DequantiseCall& call, cudaStream_t stream) {
  using Kernel = DequantiseKernel<Format>;
  check_cuda(cudaMemsetAsync(call.invalid, 0, sizeof *call.invalid, stream), "dequantise");
  launch(Kernel{call, is_aligned(call.out, 16)}, resident_blocks<Kernel>(), stream, "dequantise");
}

}  // namespace

std::string cuda_missing() {
  int devices = 0;
  const cudaError_t code = cudaGetDeviceCount(&devices);
  if (code != cudaSuccess) return std::string("no CUDA device: ") + cudaGetErrorString(code);
  return devices == 0 ? "no CUDA device" : "";
}

template <class T>
TopkPlan plan_top_k(std::uint64_t n, std::uint64_t k) {
  TopkPlan plan{n, std::min(n, k), resident_blocks<TopkKernel<T>>(), 0};
  plan.workspace_bytes = topk_layout(n, plan.k, plan.blocks).end;
  return plan;
}

void reset_top_k(const TopkPlan&, std::byte* workspace, CudaStream stream) {
  check_cuda(cudaMemsetAsync(workspace, 0, sizeof(TopkCells), stream), "top-k reset");
}

template <class T>
void top_k(const TopkPlan& plan, const TopkTensors<T>& tensors, std::byte* workspace, CudaStream stream) {
  TopkCall<T> call;
  call.x = tensors.x;
  call.residual = tensors.residual;
  call.next_residual = tensors.next_residual;
  call.n = plan.n;
  call.k = plan.k;
  call.index = tensors.index;
  call.value = tensors.value;
  call.result = tensors.result;
  prepare_topk(call, workspace, plan.blocks);
  launch(TopkKernel<T>{call}, plan.blocks, stream, "top-k");
}

template TopkPlan plan_top_k<float>(std::uint64_t, std::uint64_t);
template TopkPlan plan_top_k<compress::Half>(std::uint64_t, std::uint64_t);
template TopkPlan plan_top_k<compress::BFloat16>(std::uint64_t, std::uint64_t);
template void top_k(const TopkPlan&, const TopkTensors<float>&, std::byte*, CudaStream);
template void top_k(const TopkPlan&, const TopkTensors<compress::Half>&, std::byte*, CudaStream);
template void top_k(const TopkPlan&, const TopkTensors<compress::BFloat16>&, std::byte*, CudaStream);

void scatter_into_zeros(const std::uint64_t* index, const float* value, const std::uint64_t* count, float* tensor,
                        std::uint64_t n, CudaStream stream) {
  check_cuda(cudaMemsetAsync(tensor, 0, n * sizeof(float), stream), "scatter");
  launch(ScatterKernel{index, value, count, tensor, false}, resident_blocks<ScatterKernel>(), stream, "scatter");
}

void scatter_add(const std::uint64_t* index, const float* value, const std::uint64_t* count, float* tensor,
                 CudaStream stream) {
  launch(ScatterKernel{index, value, count, tensor, true}, resident_blocks<ScatterKernel>(), stream, "scatter-add");
}

std::size_t byte_delta_workspace_bytes() {
  const std::uint32_t blocks = std::max(resident_blocks<PackKernel>(), resident_blocks<UnpackKernel>());
  return 2 * sizeof(unsigned long long) * blocks;
}

void pack_byte_delta(const PackCall& call, CudaStream stream) {
  launch(PackKernel{call}, resident_blocks<PackKernel>(), stream, "byte-delta pack");
}

void unpack_byte_delta(const UnpackCall& call, CudaStream stream) {
  launch(UnpackKernel{call}, resident_blocks<UnpackKernel>(), stream, "byte-delta unpack");
}

void quantise_int8(const QuantiseCall& call, CudaStream stream) { quantise<Int8Blocks>(call, stream); }
void quantise_int4(const QuantiseCall& call, CudaStream stream) { quantise<Int4Blocks>(call, stream); }
void dequantise_int8(const DequantiseCall& call, CudaStream stream) { dequantise<Int8Blocks>(call, stream); }
void dequantise_int4(const DequantiseCall& call, CudaStream stream) { dequantise<Int4Blocks>(call, stream); }

}  // namespace fusion::exec
