#include "core/plan/codec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "core/base/names.h"

namespace fusion {
namespace {

constexpr std::int64_t int8_block = 256;     // elements that share one fp32 scale
constexpr std::int64_t bytes_per_kept = 12;  // fp32 value and int64 index

Bytes dense(std::int64_t elements, DType dtype, double) { return Bytes(elements * size_of(dtype)); }
Bytes half(std::int64_t elements, DType, double) { return Bytes(elements * 2); }
Bytes int8_blocks(std::int64_t elements, DType, double) {
  return Bytes(elements + 4 * ((elements + int8_block - 1) / int8_block));
}
Bytes values_and_indices(std::int64_t elements, DType, double ratio) {
  return Bytes(bytes_per_kept * kept_elements(elements, ratio));
}

// Passes over the dense tensor are an assumption, not a measurement: a cast reads it once; int8 reads it for the scale
// and again to quantise; topk selects the threshold in about three reads (radix select) and gathers in one, and
// scatters into a zeroed tensor on the other side.
constexpr std::array rows = {
    CodecRow{CodecKind::none, "none", "as it is", false, dense, 0, 0},
    CodecRow{CodecKind::fp16, "fp16", "cast to IEEE half precision, 2 bytes per element", false, half, 1, 1},
    CodecRow{CodecKind::bf16, "bf16", "cast to bfloat16, 2 bytes per element", false, half, 1, 1},
    CodecRow{CodecKind::int8, "int8", "1 byte per element and an fp32 scale per block of 256", false, int8_blocks, 2,
             1},
    CodecRow{CodecKind::topk, "topk", "the largest n / R elements, 12 bytes each (fp32 value, int64 index)", true,
             values_and_indices, 4, 1},
};

}  // namespace

std::span<const CodecRow> codec_table() { return rows; }

const CodecRow& row_of(CodecKind kind) {
  const auto row = std::ranges::find(rows, kind, &CodecRow::kind);
  check(row != rows.end(), "a codec kind without a row");
  return *row;
}

const CodecRow* find_codec(std::string_view name) {
  const auto row = std::ranges::find(rows, name, &CodecRow::name);
  return row == rows.end() ? nullptr : &*row;
}

std::int64_t kept_elements(std::int64_t n, double ratio) {
  // n / (n / k) may round to just above k; the guard is far below one element for every n that fits a memory.
  constexpr double guard = 1 - 2e-15;
  const double kept = std::ceil(static_cast<double>(n) / ratio * guard);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(kept), 1, std::max<std::int64_t>(n, 1));
}

Bytes wire_bytes(const Tensor& tensor, Codec codec) {
  if (tensor.dtype == DType::int64) return bytes_of(tensor);
  return row_of(codec.kind).wire_bytes(num_elements(tensor.shape), tensor.dtype, codec.ratio);
}

double wire_overhead(CodecKind kind, DType dtype) {
  return row_of(kind).wire_bytes(int8_block, dtype, 1) / dense(int8_block, dtype, 1);
}

std::string format_ratio(double ratio) {
  std::array<char, 32> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), ratio);
  check(error == std::errc{}, "a ratio longer than its buffer");
  return {buffer.data(), end};
}

double parse_ratio(std::string_view text) {
  double ratio = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ratio);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(ratio) || ratio < 1)
    throw std::invalid_argument("\"" + std::string(text) +
                                "\" is not an element ratio; write a number of 1 or above, like 100");
  return ratio;
}

std::string to_string(Codec codec) {
  const CodecRow& row = row_of(codec.kind);
  return std::string(row.name) + (row.sparse ? ":" + format_ratio(codec.ratio) : "");
}

Codec parse_codec(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const CodecRow& row = row_named(rows, name);
  if (row.sparse != (colon != std::string_view::npos))
    throw std::invalid_argument("\"" + std::string(text) + "\" " +
                                (row.sparse ? "has no ratio; write it like \"" + std::string(name) + ":100\""
                                            : "takes no ratio; write \"" + std::string(name) + "\""));
  return {row.kind, row.sparse ? parse_ratio(text.substr(colon + 1)) : 1};
}

}  // namespace fusion
