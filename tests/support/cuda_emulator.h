// Runs CUDA kernels on the CPU, thread by thread: the names that the kernels in exec/kernels are written against.
// Include this before a kernel's header.
//
// Every thread of a block is a fiber. They change places at barriers, votes, shuffles and atomics, in an order that the
// seed decides, and the blocks of a grid take turns too. Shared memory starts as garbage. So a missing barrier, a
// result that hangs on the order of blocks, and a vote that part of a warp misses show as a wrong result or as an
// error; `launch` throws std::logic_error where threads wait for ever or where a warp's lanes meet at different
// operations.
//
// Not emulated: the memory model (every write is seen at once), divergence of lanes between operations (lanes run one
// after another), partial masks (all 32 lanes must vote).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#define __device__  // what the kernels' functions are marked with; nothing on the CPU

/// The position of the running thread, as CUDA names it.
struct EmulatedIndex {
  unsigned x = 0;
};
extern thread_local EmulatedIndex threadIdx, blockIdx, gridDim;

namespace fusion::emulator {

struct Grid {
  unsigned blocks = 1;
  unsigned threads = 32;     ///< of a block, a multiple of 32
  bool cooperative = false;  ///< all blocks at once, with grid_sync()
  std::size_t shared_bytes = 0;
};

/// Seed 0 runs threads and blocks in ascending order wherever there is a choice, seed 1 in descending order. Others
/// draw: a third of them evenly, the rest so that some blocks, or some warps, run far ahead of others.
void run(const Grid&, std::uint64_t seed, const std::function<void(void* shared)>& body);

/// `Body::threads`, `Body::cooperative` and `Body::Shared` say what the kernel needs; body(shared) is one thread.
template <class Body>
void launch(const Body& body, unsigned blocks, std::uint64_t seed) {
  using Shared = typename Body::Shared;
  static_assert(alignof(Shared) <= alignof(std::max_align_t) && std::is_trivial_v<Shared>);
  run({blocks, Body::threads, Body::cooperative, sizeof(Shared)}, seed,
      [&](void* shared) { body(*static_cast<Shared*>(shared)); });
}

void block_barrier();
void grid_barrier();
/// Gives the value to the other lanes of the warp and takes theirs; `operation` must be the same in all.
const std::array<std::uint64_t, 32>& exchange(std::uint64_t value, const char* operation);
/// Perhaps another thread runs now.
void change_places();

template <class T>
std::uint64_t to_bits(T value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
T from_bits(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T, class F>
T atomic(T* address, F change) {
  const T before = *address;
  *address = change(before);
  change_places();
  return before;
}

}  // namespace fusion::emulator

inline void __syncthreads() { fusion::emulator::block_barrier(); }
inline void __syncwarp() { fusion::emulator::exchange(0, "__syncwarp"); }
inline void __threadfence() { fusion::emulator::change_places(); }
inline void grid_sync() { fusion::emulator::grid_barrier(); }

inline unsigned __ballot_sync(unsigned, bool predicate) {
  const auto& votes = fusion::emulator::exchange(predicate, "__ballot_sync");
  unsigned ballot = 0;
  for (unsigned lane = 0; lane < 32; ++lane) ballot |= static_cast<unsigned>(votes[lane]) << lane;
  return ballot;
}
inline bool __any_sync(unsigned mask, bool predicate) { return __ballot_sync(mask, predicate) != 0; }

template <class T>
T __shfl_sync(unsigned, T value, unsigned source) {
  return fusion::emulator::from_bits<T>(
      fusion::emulator::exchange(fusion::emulator::to_bits(value), "__shfl_sync")[source % 32]);
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned delta) {
  const auto& values = fusion::emulator::exchange(fusion::emulator::to_bits(value), "__shfl_up_sync");
  const unsigned lane = threadIdx.x % 32;
  return fusion::emulator::from_bits<T>(values[lane < delta ? lane : lane - delta]);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, unsigned bits) {
  return fusion::emulator::from_bits<T>(
      fusion::emulator::exchange(fusion::emulator::to_bits(value), "__shfl_xor_sync")[(threadIdx.x % 32) ^ bits]);
}

template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return fusion::emulator::atomic(address, [&](T before) { return static_cast<T>(before + value); });
}
template <class T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return fusion::emulator::atomic(address, [&](T before) { return std::max(before, value); });
}

inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __ffs(int bits) { return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1; }
inline int __clz(int bits) { return std::countl_zero(static_cast<unsigned>(bits)); }
inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
  for (int shift = 0; shift < 32; shift += 8) sum += ((a >> shift) & 255u) * ((b >> shift) & 255u);
  return sum;
}
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
