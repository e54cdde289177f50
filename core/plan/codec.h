// The wire formats of cut tensors: one row each, and the only place that knows how many bytes a message takes.
//
// An *element ratio* r keeps n / r of n elements. The `topk` format sends an fp32 value and an int64 index, 12 bytes
// per kept element: element ratio 100 is a volume ratio of 33 on fp32 (golden case G23).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/units.h"
#include "core/graph/graph.h"

namespace fusion {

enum class CodecKind : std::uint8_t { none, fp16, bf16, int8, topk };

/// A codec and its setting, as it stands on an edge.
struct Codec {
  CodecKind kind = CodecKind::none;
  double ratio = 1;  ///< element ratio, for sparse rows; 1 elsewhere
  bool operator==(const Codec&) const = default;
};

struct CodecRow {
  CodecKind kind;
  std::string_view name;
  std::string_view help;
  bool sparse;  ///< takes a ratio
  /// Bytes on the wire for `elements` of `dtype`.
  Bytes (*wire_bytes)(std::int64_t elements, DType dtype, double ratio);
  double encode_passes, decode_passes;  ///< memory passes over the dense tensor that coding costs
};

std::span<const CodecRow> codec_table();
const CodecRow& row_of(CodecKind);
const CodecRow* find_codec(std::string_view name);

/// Wire size of a tensor under a codec. A codec never applies to integers (tokens): they travel as they are.
Bytes wire_bytes(const Tensor&, Codec);

/// Bytes per kept element over the bytes of a dense element of `dtype`: 3 for `topk` and fp32 (w of AdaTopK).
double wire_overhead(CodecKind, DType);

/// Elements that a sparse codec keeps: ceil(n / ratio), at least one. A ratio that was made as n / k keeps exactly k.
std::int64_t kept_elements(std::int64_t n, double ratio);

/// "topk:100", "fp16", "none"
std::string to_string(Codec);
/// The inverse of `to_string`. Throws std::invalid_argument that says what would be right.
Codec parse_codec(std::string_view);

/// An element ratio: a finite number, 1 or above. Throws std::invalid_argument. `format_ratio` is its inverse.
double parse_ratio(std::string_view);
std::string format_ratio(double);

}  // namespace fusion
