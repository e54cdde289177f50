// Stands in for compress_cuda.cu where the build found no CUDA toolkit.
#include "core/base/error.h"
#include "core/compress/half.h"
#include "exec/compress_cuda.h"

namespace fusion::exec {
namespace {

[[noreturn]] void refuse() { throw RuntimeFault(cuda_missing()); }

}  // namespace

std::string cuda_missing() { return "built without CUDA: no nvcc was found when it was configured"; }

template <class T>
TopkPlan plan_top_k(std::uint64_t, std::uint64_t) {
  refuse();
}
template <class T>
void top_k(const TopkPlan&, const TopkTensors<T>&, std::byte*, CudaStream) {
  refuse();
}
template TopkPlan plan_top_k<float>(std::uint64_t, std::uint64_t);
template TopkPlan plan_top_k<compress::Half>(std::uint64_t, std::uint64_t);
template TopkPlan plan_top_k<compress::BFloat16>(std::uint64_t, std::uint64_t);
template void top_k(const TopkPlan&, const TopkTensors<float>&, std::byte*, CudaStream);
template void top_k(const TopkPlan&, const TopkTensors<compress::Half>&, std::byte*, CudaStream);
template void top_k(const TopkPlan&, const TopkTensors<compress::BFloat16>&, std::byte*, CudaStream);

void reset_top_k(const TopkPlan&, std::byte*, CudaStream) { refuse(); }
void scatter_into_zeros(const std::uint64_t*, const float*, const std::uint64_t*, float*, std::uint64_t, CudaStream) {
  refuse();
}
void scatter_add(const std::uint64_t*, const float*, const std::uint64_t*, float*, CudaStream) { refuse(); }
std::size_t byte_delta_workspace_bytes() { refuse(); }
void pack_byte_delta(const PackCall&, CudaStream) { refuse(); }
void unpack_byte_delta(const UnpackCall&, CudaStream) { refuse(); }
void quantise_int8(const QuantiseCall&, CudaStream) { refuse(); }
void quantise_int4(const QuantiseCall&, CudaStream) { refuse(); }
void dequantise_int8(const DequantiseCall&, CudaStream) { refuse(); }
void dequantise_int4(const DequantiseCall&, CudaStream) { refuse(); }

}  // namespace fusion::exec
