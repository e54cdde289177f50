// Helpers that the kernels share. Kernels are plain structs: `Shared` is a block's shared memory, `threads` its size,
// and operator()(Shared&) is one thread. They use few names of CUDA, which a compiler for GPUs has, and the tests'
// emulator gives on the CPU. Include one of the two before this:
//   threadIdx.x blockIdx.x gridDim.x    __syncthreads grid_sync    __ballot_sync __any_sync __shfl_*_sync (all 32
//   lanes) atomicAdd atomicMax                 __popc __ffs __dp4a        __float_as_uint __uint_as_float
#pragma once

#include <cstdint>

#include "core/compress/half.h"

namespace fusion::exec {

/// What 64-bit atomics take.
using Count = unsigned long long;

inline constexpr unsigned all_lanes = 0xffffffffu;
inline constexpr std::uint32_t infinity_bits = 0x7f800000u;  ///< magnitudes from here on are not finite

__device__ inline unsigned lane() { return threadIdx.x % 32; }
__device__ inline unsigned warp() { return threadIdx.x / 32; }
__device__ inline unsigned lanes_below() { return (1u << lane()) - 1; }

/// |x| as an integer: ordered as |x| is, with no mode of the floating-point unit in it.
__device__ inline std::uint32_t magnitude_bits(float x) { return __float_as_uint(x) & 0x7fffffffu; }

__device__ inline float widen(float x) { return x; }
__device__ inline float widen(compress::BFloat16 x) {
  return __uint_as_float(static_cast<std::uint32_t>(x.bits) << 16);
}
__device__ inline float widen(compress::Half x) {
  const std::uint32_t sign = (x.bits & 0x8000u) << 16, magnitude = (x.bits & 0x7fffu) << 13;
  const float finite = __uint_as_float(magnitude) * 0x1p112f;  // moves the exponent's bias; exact, subnormals too
  const std::uint32_t bits = (x.bits & 0x7c00u) == 0x7c00u ? magnitude | infinity_bits : __float_as_uint(finite);
  return __uint_as_float(sign | bits);
}

/// Four neighbours, loaded and stored at once.
template <class T>
struct alignas(4 * sizeof(T)) Quad {
  T at[4];
};

__device__ inline Count smaller(Count a, Count b) { return a < b ? a : b; }

/// splitmix64's finaliser: a good hash of a counter, the same as on the CPU.
__device__ inline Count mix(Count z) {
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/// A block's part of `count` things: contiguous, the parts differ by one at most.
struct Range {
  Count begin, end;
};
__device__ inline Range own_range(Count count) {
  const Count each = count / gridDim.x, rest = count % gridDim.x, b = blockIdx.x;
  const Count begin = each * b + smaller(b, rest);
  return {begin, begin + each + (b < rest)};
}

/// Sums over the lanes up to this one.
template <class T>
__device__ inline T warp_inclusive_sum(T value) {
  for (unsigned step = 1; step < 32; step *= 2) {
    const T other = __shfl_up_sync(all_lanes, value, step);
    if (lane() >= step) value += other;
  }
  return value;
}

/// Sum over the threads before this one; `sums` has one element per warp. `total` receives the sum over all.
template <unsigned threads>
__device__ inline Count block_exclusive_sum(Count value, Count* sums, Count& total) {
  const Count inclusive = warp_inclusive_sum(value);
  if (lane() == 31) sums[warp()] = inclusive;
  __syncthreads();
  Count before = 0;
  total = 0;
  for (unsigned w = 0; w < threads / 32; ++w) {
    before += w < warp() ? sums[w] : 0;
    total += sums[w];
  }
  __syncthreads();
  return before + inclusive - value;
}

}  // namespace fusion::exec
