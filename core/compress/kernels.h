// The inner loops of selection, one table of functions per instruction set. All tables give the same bits.
//
// Magnitudes are compared as integers: for IEEE floats the bits without the sign order as |x| does, zeros are equal,
// and whatever is not finite is at or above `infinity_bits`. No floating-point mode can change the order.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace fusion::compress {

enum class Target : std::uint8_t { scalar, avx2, avx512, neon };

std::string_view name_of(Target);
/// Those that this processor runs, slowest first; `scalar` always.
std::span<const Target> supported_targets();
inline Target best_target() { return supported_targets().back(); }

inline constexpr std::uint32_t infinity_bits = 0x7f800000u;
inline std::uint32_t magnitude_bits(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7fffffffu; }

/// Elements that a scan may add beyond the room it is told of: it looks for room once per chunk, and stores whole
/// vectors.
inline constexpr std::size_t scan_chunk = 2048;
inline constexpr std::size_t scan_slack = scan_chunk + 64;

/// Elements at or above the threshold, in index order. Both arrays have `capacity + scan_slack` elements.
struct Candidates {
  std::uint32_t* index;
  float* value;
  std::size_t count;
  std::size_t capacity;
};

/// One pass over `x[begin, end)`, or over x + e where there is error feedback.
struct Scan {
  const void* x = nullptr;
  const float* error = nullptr;  ///< e, or nullptr
  float* residual = nullptr;     ///< with e: receives x + e, with zero where the element became a candidate
  std::size_t begin = 0, end = 0;
  std::uint32_t threshold = 0;  ///< magnitude bits
  bool dense = false;           ///< expect more than about 3 % candidates
  bool stream = false;          ///< write the residual past the cache
};

struct Extract {
  std::size_t kept = 0;
  std::size_t above = 0;  ///< values beyond `highest`
};

struct Kernels {
  /// Appends what reaches the threshold; indices are relative to x. Stops before a chunk that may not fit, and returns
  /// the position it reached.
  std::size_t (*scan_fp32)(const Scan&, Candidates&);
  std::size_t (*scan_fp16)(const Scan&, Candidates&);
  std::size_t (*scan_bf16)(const Scan&, Candidates&);

  /// Moves candidates of [begin, end) at or above the threshold down to `out` (<= begin), keeping their order.
  /// Returns the position after the last.
  std::size_t (*keep)(Candidates&, std::size_t begin, std::size_t end, std::uint32_t threshold, std::size_t out);

  /// Copies the values whose magnitude lies in [lowest, highest] to `out` (room for n, plus scan_slack), in order.
  Extract (*extract)(const float* x, std::size_t n, std::uint32_t lowest, std::uint32_t highest, float* out);

  std::uint32_t (*max_magnitude)(const float* x, std::size_t n);

  /// out = half(x * factor), round to nearest even; and x = half * factor.
  void (*to_half)(const float* x, std::size_t n, float factor, std::uint16_t* out);
  void (*from_half)(const std::uint16_t* half, std::size_t n, float factor, float* out);

  /// sum |x|: the plain read pass that speeds are measured against.
  float (*read_pass)(const float* x, std::size_t n);
  /// e += g: what error feedback costs at least.
  void (*accumulate)(float* e, const float* g, std::size_t n);
};

/// The target must be one of supported_targets().
const Kernels& kernels(Target);

namespace detail {
const Kernels& scalar_kernels();
}

}  // namespace fusion::compress
