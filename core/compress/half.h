// 16-bit floating point: IEEE binary16 and bfloat16 as bits, with conversions that round to nearest, ties to even.
// These are the reference; the vector kernels give the same bits.
#pragma once

#include <bit>
#include <cstdint>

namespace fusion::compress {

struct Half {
  std::uint16_t bits = 0;
  bool operator==(const Half&) const = default;
};
struct BFloat16 {
  std::uint16_t bits = 0;
  bool operator==(const BFloat16&) const = default;
};

inline float to_float(float x) { return x; }

inline float to_float(BFloat16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }

inline float to_float(Half x) {
  const std::uint32_t sign = (x.bits & 0x8000u) << 16, exponent = (x.bits >> 10) & 31u, mantissa = x.bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // zero or subnormal, exact in fp32
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

/// NaN stays NaN (quiet); what rounds beyond the largest finite value becomes infinity.
inline BFloat16 to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>(bits >> 16 | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

inline Half to_half(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const auto result = [&](std::uint32_t low) { return Half{static_cast<std::uint16_t>(sign | low)}; };
  if (magnitude > 0x7f800000u) return result(0x7e00u);
  if (magnitude >= 0x477ff000u) return result(0x7c00u);  // 65,520 and above round to infinity
  if (magnitude < 0x38800000u) {                         // below 2^-14: adding 0.5 rounds to a multiple of 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return result(std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u);
  }
  return result((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13);
}

}  // namespace fusion::compress
