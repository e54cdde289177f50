#include "core/plan/codec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "core/base/names.h"

namespace fusion {
namespace {

using compress::IndexFormat;
using compress::Method;
using compress::ValueFormat;

constexpr std::array rows = {
    CodecRow{CodecKind::none, "none", false, {}},
    CodecRow{CodecKind::fp16, "fp16", false, Method::fp16},
    CodecRow{CodecKind::bf16, "bf16", false, Method::bf16},
    CodecRow{CodecKind::int8, "int8", false, Method::int8},
    CodecRow{CodecKind::topk, "topk", true, Method::topk},
    CodecRow{CodecKind::topk_raw, "topk-raw", true, Method::topk, ValueFormat::fp32, IndexFormat::raw64},
    CodecRow{CodecKind::int4, "int4", false, Method::int4},
    CodecRow{CodecKind::hadamard_int4, "hadamard-int4", false, Method::hadamard_int4},
    CodecRow{CodecKind::aq, "aq", false, Method::aq},
    CodecRow{CodecKind::power_sgd, "powersgd", false, Method::power_sgd},
    CodecRow{CodecKind::topk_int8, "topk-int8", true, Method::topk, ValueFormat::int8_log},
};

}  // namespace

std::span<const CodecRow> codec_table() { return rows; }

const CodecRow& row_of(CodecKind kind) {
  const auto row = std::ranges::find(rows, kind, &CodecRow::kind);
  check(row != rows.end(), "a codec kind without a row");
  return *row;
}

Shape coded_shape(const Tensor& tensor, CodecKind kind) {
  const Shape& shape = tensor.shape;
  if (kind != CodecKind::power_sgd || shape.size() < 2) return shape;
  constexpr std::size_t picture = 4;
  const std::size_t split = shape.size() == picture ? 2 : shape.size() - 1;
  Shape matrix = {1, 1};
  for (std::size_t d = 0; d < shape.size(); ++d) matrix[d < split ? 0 : 1] *= shape[d];
  return matrix;
}

std::optional<Coding> coding_of(const Tensor& tensor, Codec codec) {
  const CodecRow& row = row_of(codec.kind);
  if (!row.method || tensor.dtype == DType::int64) return {};
  Coding coding{*row.method, {}};
  coding.options.value = row.value;
  coding.options.index = row.index;
  const std::int64_t n = num_elements(tensor.shape);
  if (!row.sparse || n == 0) return coding;
  const std::int64_t kept = kept_elements(n, codec.ratio);
  coding.options.keep = static_cast<double>(kept) / static_cast<double>(n);
  if (kept == n) coding.options.value = ValueFormat::fp32;  // who keeps everything wants it exact
  return coding;
}

Bytes wire_bytes(const Tensor& tensor, Codec codec) {
  const auto coding = coding_of(tensor, codec);
  if (!coding) return bytes_of(tensor);
  return Bytes(static_cast<std::int64_t>(
      compress::wire_size(coding->method, coded_shape(tensor, codec.kind), coding->options).expected));
}

compress::Passes coding_passes(CodecKind kind) {
  const CodecRow& row = row_of(kind);
  return row.method ? compress::row_of(*row.method).passes : compress::Passes{0, 0};
}

std::int64_t kept_elements(std::int64_t n, double ratio) {
  // n / (n / k) may round to just above k; the guard is far below one element for every n that fits a memory.
  constexpr double guard = 1 - 2e-15;
  const double kept = std::ceil(static_cast<double>(n) / ratio * guard);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(kept), 1, std::max<std::int64_t>(n, 1));
}

Codec topk_within(const Tensor& tensor, Bytes limit) {
  const std::int64_t n = num_elements(tensor.shape);
  const auto keeping = [&](std::int64_t k) {
    return Codec{CodecKind::topk, static_cast<double>(n) / static_cast<double>(k)};
  };
  std::int64_t low = 1, high = std::max<std::int64_t>(n, 1);  // the answer lies between; sizes rise with k
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (wire_bytes(tensor, keeping(middle)) <= limit) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return keeping(low);
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
