// What the top-k kernel reads and writes, and where it lies in its workspace. Plain data, for host and device.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace fusion::exec {

/// In device memory, written by the kernel.
struct TopkResult {
  std::uint64_t count = 0;  ///< elements selected: min(k, n), or 0 where a value is not finite
  std::uint64_t first_not_finite = 0;
  std::uint32_t has_not_finite = 0;
  float threshold = 0;  ///< the smallest magnitude kept
};

/// Input that the kernel works through at once: one block, a piece of 1,024 elements to each of its 8 warps.
inline constexpr std::uint32_t topk_threads = 256;
inline constexpr std::uint32_t topk_tile = 8192;

inline constexpr std::uint32_t topk_bins = 4096;         ///< of a histogram: 12 bits
inline constexpr std::uint32_t topk_octave_bins = 2048;  ///< of the histogram that is made while collecting
inline constexpr std::uint32_t topk_small = 4096;        ///< fewer elements are not sampled but taken whole

/// Zero before the first call; the kernel leaves it so, but for the hint.
struct TopkCells {
  std::uint32_t hint;                              ///< magnitude bits of the last call's threshold; 0: none
  unsigned long long candidates[2];                ///< elements that reached the first threshold; the second
  unsigned long long not_finite;                   ///< complement of the first such index, 0 where there is none
  unsigned long long sample[topk_bins];            ///< magnitudes of the sample
  unsigned long long octave[2][topk_octave_bins];  ///< magnitudes of candidates, from the threshold to twice that
  unsigned long long digits[3][topk_bins];         ///< the magnitude's bits: first 12, next 7, last 12
};

/// Candidates of one tile, and what goes before it within its block's tiles.
struct TopkTile {
  unsigned long long offset;          ///< of its first candidate
  unsigned long long greater, equal;  ///< elements above the k-th magnitude, and of it
  std::uint32_t count;
};

struct TopkTotals {
  unsigned long long greater, equal;
};

/// One call. T: float, compress::Half or compress::BFloat16. Every pointer is to device memory.
template <class T>
struct TopkCall {
  const T* x = nullptr;
  const float* residual = nullptr;  ///< or nullptr: no error feedback
  float* next_residual = nullptr;
  std::uint64_t n = 0, k = 0;  ///< k <= n
  bool aligned = false;        ///< x at 4 elements, residuals at 16 bytes
  std::uint32_t sample_size = 0, sample_rank = 0;

  std::uint64_t* index = nullptr;  ///< k of each
  float* value = nullptr;
  TopkResult* result = nullptr;

  TopkCells* cells = nullptr;  // the workspace
  TopkTile* tiles = nullptr;
  TopkTotals* totals = nullptr;       ///< one per block
  float* candidate = nullptr;         ///< `capacity` of each
  std::uint16_t* position = nullptr;  ///< of the candidate in its tile
  std::uint64_t capacity = 0;
};

inline std::uint64_t topk_tiles(std::uint64_t n) { return (n + topk_tile - 1) / topk_tile; }

/// Candidates there is room for. More than that reach a threshold that was far off.
inline std::uint64_t topk_capacity(std::uint64_t n, std::uint64_t k) {
  const std::uint64_t room = 2 * k + n / 64 + topk_small;
  return room < n ? room : n;
}

/// Offsets in bytes from the start of the workspace; cells come first.
struct TopkLayout {
  std::size_t tiles, totals, candidate, position, end;
};

inline TopkLayout topk_layout(std::uint64_t n, std::uint64_t k, std::uint32_t blocks) {
  const auto after = [](std::size_t offset, std::size_t bytes) { return (offset + bytes + 255) / 256 * 256; };
  TopkLayout layout{};
  layout.tiles = after(0, sizeof(TopkCells));
  layout.totals = after(layout.tiles, topk_tiles(n) * sizeof(TopkTile));
  layout.candidate = after(layout.totals, blocks * sizeof(TopkTotals));
  layout.position = after(layout.candidate, topk_capacity(n, k) * sizeof(float));
  layout.end = after(layout.position, topk_capacity(n, k) * sizeof(std::uint16_t));
  return layout;
}

/// Sample and rank: slightly more than k elements reach the sample's element of that rank, most probably (four standard
/// deviations of it). Size 0: take everything.
template <class T>
void plan_topk_sample(TopkCall<T>& call) {
  call.sample_size = call.sample_rank = 0;
  if (call.n < topk_small) return;
  const std::uint64_t size = std::clamp<std::uint64_t>(call.n / 256, 1024, 16384);
  const double expected = static_cast<double>(call.k) / static_cast<double>(call.n) * static_cast<double>(size);
  const double rank = expected + 4 * std::sqrt(expected) + 2;
  if (rank >= static_cast<double>(size)) return;
  call.sample_size = static_cast<std::uint32_t>(size);
  call.sample_rank = static_cast<std::uint32_t>(rank);
}

template <class T>
bool is_aligned(const T* pointer, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

/// Fills in what follows from x, the residuals, n and k. `workspace` has topk_layout(n, k, blocks).end bytes, aligned
/// to 256; its cells were zeroed before the first call.
template <class T>
void prepare_topk(TopkCall<T>& call, std::byte* workspace, std::uint32_t blocks) {
  const TopkLayout layout = topk_layout(call.n, call.k, blocks);
  call.cells = reinterpret_cast<TopkCells*>(workspace);
  call.tiles = reinterpret_cast<TopkTile*>(workspace + layout.tiles);
  call.totals = reinterpret_cast<TopkTotals*>(workspace + layout.totals);
  call.candidate = reinterpret_cast<float*>(workspace + layout.candidate);
  call.position = reinterpret_cast<std::uint16_t*>(workspace + layout.position);
  call.capacity = topk_capacity(call.n, call.k);
  call.aligned =
      is_aligned(call.x, 4 * sizeof(T)) && is_aligned(call.residual, 16) && is_aligned(call.next_residual, 16);
  plan_topk_sample(call);
}

}  // namespace fusion::exec
