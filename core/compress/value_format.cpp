#include "core/compress/value_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "core/base/error.h"
#include "core/compress/half.h"
#include "core/compress/kernels.h"

namespace fusion::compress {
namespace {

[[noreturn]] void bad(std::string_view what) { throw RuntimeFault("wire message: " + std::string(what)); }

float largest_magnitude(std::span<const float> values) {
  return std::bit_cast<float>(kernels(best_target()).max_magnitude(values.data(), values.size()));
}

/// The power of two s with largest / s in [2^14, 2^15); at least 2^-126, since s itself is a normal number.
float half_scale(float largest) {
  if (largest == 0) return 1;
  int exponent = 0;
  std::frexp(largest, &exponent);  // largest in [2^(exponent - 1), 2^exponent)
  return std::ldexp(1.0f, std::max(exponent - 15, -126));
}

/// Half and 1 / scale are exact: the reciprocal of a power of two between 2^-126 and 2^113 is a normal number.
bool is_half_scale(float scale) {
  int exponent = 0;
  return std::isfinite(scale) && std::frexp(scale, &exponent) == 0.5f && exponent >= -125 && exponent <= 114;
}

template <class T, class Encode, class Decode>
void write_narrow(std::span<const float> values, std::byte* to, float* sent, Encode encode, Decode decode) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T narrow = encode(values[i]);
    std::memcpy(to + i * sizeof(T), &narrow, sizeof(T));
    if (sent) sent[i] = decode(narrow);
  }
}

/// The magnitudes of the levels 1, 2, …; and where the next one begins to be nearer, as bits.
template <std::size_t count>
struct Levels {
  std::array<float, count + 1> magnitude{};           ///< level 0 is zero
  std::array<std::uint32_t, count + 1> upper_bits{};  ///< magnitudes below these bits are of the level or one below

  explicit Levels(ValueScale scale) {
    double level = static_cast<double>(scale.first);
    for (std::size_t j = 1; j <= count; ++j, level *= static_cast<double>(scale.second))
      magnitude[j] = static_cast<float>(level);
    for (std::size_t j = 0; j < count; ++j)
      upper_bits[j] = std::bit_cast<std::uint32_t>(
          static_cast<float>((static_cast<double>(magnitude[j]) + static_cast<double>(magnitude[j + 1])) / 2));
    upper_bits[0] = 1;  // zero alone is level 0
    upper_bits[count] = 0xffffffffu;
    if (scale.first == 0) upper_bits.fill(0xffffffffu);  // all is zero
  }

  /// The nearest level. Halving without a branch on the data.
  std::uint8_t nearest(float x) const {
    const std::uint32_t bits = magnitude_bits(x);
    std::size_t level = 0;
    for (std::size_t step = (count + 1) / 2; step > 0; step /= 2)
      level += bits >= upper_bits[level + step - 1] ? step : 0;
    return static_cast<std::uint8_t>(level);
  }
};
using Levels8 = Levels<127>;
using Levels4 = Levels<7>;

float smallest_non_zero(std::span<const float> values) {
  std::uint32_t least = infinity_bits;
  for (const float v : values) {
    const std::uint32_t magnitude = magnitude_bits(v);
    if (magnitude != 0) least = std::min(least, magnitude);
  }
  return least == infinity_bits ? 0.0f : std::bit_cast<float>(least);
}

/// The largest ratio whose last level does not exceed `largest`, so that every level is finite.
ValueScale log_scale(std::span<const float> values, std::size_t levels) {
  const float low = smallest_non_zero(values), high = largest_magnitude(values);
  if (low == 0) return {};
  const double ratio =
      std::pow(static_cast<double>(high) / static_cast<double>(low), 1.0 / static_cast<double>(levels - 1));
  return {low, std::max(1.0f, std::nextafter(static_cast<float>(ratio), 0.0f))};
}

template <class LevelTable>
float decoded(const LevelTable& levels, unsigned code, unsigned sign_bit) {
  const float magnitude = levels.magnitude[code & (sign_bit - 1)];
  return code & sign_bit ? -magnitude : magnitude;
}

template <class LevelTable>
unsigned encoded(const LevelTable& levels, float x, unsigned sign_bit) {
  const unsigned level = levels.nearest(x);
  return level | (std::signbit(x) && level != 0 ? sign_bit : 0);
}

ValueScale write_log8(std::span<const float> values, std::byte* to, float* sent) {
  const ValueScale scale = log_scale(values, 127);
  const Levels8 levels(scale);
  write_narrow<std::uint8_t>(
      values, to, sent, [&](float x) { return static_cast<std::uint8_t>(encoded(levels, x, 128)); },
      [&](std::uint8_t code) { return decoded(levels, code, 128); });
  return scale;
}

ValueScale write_log4(std::span<const float> values, std::byte* to, float* sent) {
  const ValueScale scale = log_scale(values, 7);
  const Levels4 levels(scale);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const unsigned code = encoded(levels, values[i], 8);
    to[i / 2] |= static_cast<std::byte>(i % 2 == 0 ? code : code << 4);
    if (sent) sent[i] = decoded(levels, code, 8);
  }
  return scale;
}

/// Sections lie at any byte; kernels want their own alignment. So values pass by in pieces that stay in the first
/// cache.
constexpr std::size_t piece = 4096;

ValueScale write_half(std::span<const float> values, std::byte* to, float* sent) {
  const float scale = half_scale(largest_magnitude(values));
  const Kernels& kernel = kernels(best_target());
  std::array<std::uint16_t, piece> halves;
  for (std::size_t at = 0; at < values.size(); at += piece) {
    const std::size_t length = std::min(piece, values.size() - at);
    kernel.to_half(values.data() + at, length, 1 / scale, halves.data());
    // At the top of fp32's range, what rounds up to 2^15 would be infinity times the scale: the half below it instead.
    if (scale == 0x1p113f)
      for (std::uint16_t& h : halves) h = static_cast<std::uint16_t>(h - ((h & 0x7fff) == 0x7800));
    std::memcpy(to + 2 * at, halves.data(), 2 * length);
    if (sent) kernel.from_half(halves.data(), length, scale, sent + at);
  }
  return {scale, 0};
}

void read_half(float scale, std::span<const std::byte> section, std::span<float> values) {
  if (!is_half_scale(scale)) bad("the fp16 scale is no power of two in range");
  const Kernels& kernel = kernels(best_target());
  std::array<std::uint16_t, piece> halves;
  for (std::size_t at = 0; at < values.size(); at += piece) {
    const std::size_t length = std::min(piece, values.size() - at);
    std::memcpy(halves.data(), section.data() + 2 * at, 2 * length);
    kernel.from_half(halves.data(), length, scale, values.data() + at);
  }
}

/// A finite value stays finite: what would round to infinity takes the largest bfloat16.
BFloat16 saturated_bfloat16(float x) {
  const BFloat16 rounded = to_bfloat16(x);
  return (rounded.bits & 0x7fffu) == 0x7f80u ? BFloat16{static_cast<std::uint16_t>(rounded.bits - 1)} : rounded;
}

template <class T>
void read_narrow(std::span<const std::byte> section, std::span<float> values, auto decode) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    T narrow;
    std::memcpy(&narrow, section.data() + i * sizeof(T), sizeof(T));
    values[i] = decode(narrow);
  }
}

/// Every level finite: the reader's table is built from hostile numbers.
template <class LevelTable>
LevelTable checked_levels(ValueScale scale) {
  const bool none = scale.first == 0 && scale.second == 0;
  if (!none && !(scale.first > 0 && scale.second >= 1)) bad("a logarithmic scale has no such threshold or ratio");
  const LevelTable levels(scale);
  if (!std::isfinite(levels.magnitude.back())) bad("a logarithmic scale is beyond fp32");
  return levels;
}

void read_log4(ValueScale scale, std::span<const std::byte> section, std::span<float> values) {
  const auto levels = checked_levels<Levels4>(scale);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto pair = static_cast<unsigned>(section[i / 2]);
    values[i] = decoded(levels, i % 2 == 0 ? pair & 15 : pair >> 4, 8);
  }
  if (values.size() % 2 == 1 && static_cast<unsigned>(section.back()) >> 4 != 0) bad("an unused value is not zero");
}

}  // namespace

std::uint64_t value_bytes(ValueFormat format, std::uint64_t count) {
  switch (format) {
    case ValueFormat::fp32:
      return 4 * count;
    case ValueFormat::fp16:
    case ValueFormat::bf16:
      return 2 * count;
    case ValueFormat::int8_log:
      return count;
    case ValueFormat::int4_log:
      return count / 2 + count % 2;
  }
  check(false, "a value format without a size");
  return 0;
}

ValueScale write_values(ValueFormat format, std::span<const float> values, std::vector<std::byte>& out,
                        std::vector<float>* sent) {
  const std::size_t start = out.size();
  out.resize(start + value_bytes(format, values.size()));
  if (sent) sent->resize(values.size());
  std::byte* to = out.data() + start;
  float* seen = sent ? sent->data() : nullptr;
  const auto same = [](float x) { return x; };
  switch (format) {
    case ValueFormat::fp32:
      write_narrow<float>(values, to, seen, same, same);
      return {};
    case ValueFormat::fp16:
      return write_half(values, to, seen);
    case ValueFormat::bf16:
      write_narrow<BFloat16>(values, to, seen, saturated_bfloat16, [](BFloat16 x) { return to_float(x); });
      return {};
    case ValueFormat::int8_log:
      return write_log8(values, to, seen);
    case ValueFormat::int4_log:
      return write_log4(values, to, seen);
  }
  return {};
}

void read_values(ValueFormat format, ValueScale scale, std::span<const std::byte> section, std::span<float> values) {
  check(section.size() == value_bytes(format, values.size()), "a value section of another length");
  switch (format) {
    case ValueFormat::fp32:
      read_narrow<float>(section, values, [](float x) { return x; });
      break;
    case ValueFormat::fp16:
      read_half(scale.first, section, values);
      break;
    case ValueFormat::bf16:
      read_narrow<BFloat16>(section, values, [](BFloat16 x) { return to_float(x); });
      break;
    case ValueFormat::int8_log: {
      const auto levels = checked_levels<Levels8>(scale);
      read_narrow<std::uint8_t>(section, values, [&](std::uint8_t code) { return decoded(levels, code, 128); });
      break;
    }
    case ValueFormat::int4_log:
      read_log4(scale, section, values);
      break;
  }
  if (!values.empty() && magnitude_bits(largest_magnitude(values)) >= infinity_bits) bad("a value is not finite");
}

}  // namespace fusion::compress
