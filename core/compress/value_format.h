// How the values of a message are written.
//
//   fp32      4 bytes, exact
//   fp16      IEEE binary16 of value / scale; the scale is a power of two that brings the largest magnitude into
//             [2^14, 2^15), so that gradients of 1e-9 keep 11 bits
//   bf16      bfloat16, 8 bits of mantissa at the range of fp32
//   int8_log  a sign bit and a 7-bit level: 0 is zero, level j >= 1 is threshold * ratio^(j - 1)
//   int4_log  the same with a 3-bit level; the first value in the low half of a byte
//
// In the logarithmic formats `threshold` is the smallest non-zero magnitude and the last level is the largest, so that
// the relative error is at most (ratio - 1) / 2: 0.3 % for the top 1 % of a Gaussian in int8_log. Levels are built by
// repeated multiplication in double, which every IEEE machine rounds alike.
//
// The formats know no NaN and no infinity: the writer's values are finite, and a reader rejects what is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fusion::compress {

enum class ValueFormat : std::uint8_t { fp32, fp16, bf16, int8_log, int4_log };

/// What a reader needs beside the bytes. `first` is the scale of fp16, the threshold of the logarithmic formats;
/// `second` their ratio; both 0 where the format has none.
struct ValueScale {
  float first = 0, second = 0;
  bool operator==(const ValueScale&) const = default;
};

std::uint64_t value_bytes(ValueFormat, std::uint64_t count);

/// Appends the section. Where `sent` is given, it receives what the reader will see, value by value.
ValueScale write_values(ValueFormat, std::span<const float> values, std::vector<std::byte>& out,
                        std::vector<float>* sent = nullptr);

/// The section has value_bytes(format, values.size()) bytes. Throws RuntimeFault for a scale that no writer gives, and
/// for a value that is not finite.
void read_values(ValueFormat, ValueScale, std::span<const std::byte> section, std::span<float> values);

}  // namespace fusion::compress
