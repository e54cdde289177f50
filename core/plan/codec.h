// Codecs as they stand on the edges of a plan: a name and an element ratio. What they cost, bytes and time, is the
// compressors' to say (core/compress/codec.h); this looks it up.
//
// An *element ratio* r keeps n / r of n elements. `topk` sends fp16 values and the smallest index format, about 3.01
// bytes per kept element at r = 100; `topk-raw` is the naive format, an fp32 value and an int64 index, 12 bytes:
// element ratio 100 is then a volume ratio of 33 on fp32 (golden case G23).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/units.h"
#include "core/compress/codec.h"
#include "core/graph/graph.h"

namespace fusion {

enum class CodecKind : std::uint8_t {
  none,
  fp16,
  bf16,
  int8,
  topk,
  topk_raw,
  int4,
  hadamard_int4,
  aq,
  power_sgd,
  topk_int8
};

/// A codec and its setting, as it stands on an edge.
struct Codec {
  CodecKind kind = CodecKind::none;
  double ratio = 1;  ///< element ratio, for sparse rows; 1 elsewhere
  bool operator==(const Codec&) const = default;
};

struct CodecRow {
  CodecKind kind;
  std::string_view name;
  bool sparse;  ///< takes a ratio
  /// What codes it; absent for `none`: the tensor travels as its bytes lie, without an envelope.
  std::optional<compress::Method> method;
  compress::ValueFormat value = compress::ValueFormat::fp16;  ///< of sparse rows
  std::optional<compress::IndexFormat> index = {};            ///< of sparse rows; absent: the smallest
};

std::span<const CodecRow> codec_table();
const CodecRow& row_of(CodecKind);

/// How to code a tensor, for an executor: compress::encode(method, …, options, …) sends `wire_bytes` bytes.
struct Coding {
  compress::Method method;
  compress::MethodOptions options;
};
/// Of a tensor under a codec; a sparse one that keeps everything loses nothing. Absent where it travels as it is:
/// `none`, and integers under any codec.
std::optional<Coding> coding_of(const Tensor&, Codec);

/// Bytes on the wire of a tensor under a codec. Exact but for `topk`, whose index depends on where the largest elements
/// lie: the mean over all supports, an envelope of 32 bytes and a message header included. Real tensors cluster and
/// take less; compress::wire_size gives the most that any tensor takes.
Bytes wire_bytes(const Tensor&, Codec);

/// Time of coding, over that of reading the dense tensor once.
compress::Passes coding_passes(CodecKind);

/// Elements that a sparse codec keeps: ceil(n / ratio), at least one. A ratio that was made as n / k keeps exactly k.
std::int64_t kept_elements(std::int64_t n, double ratio);

/// `topk` with the lowest ratio at which a tensor takes no more than `limit` on the wire; one element where none does.
Codec topk_within(const Tensor&, Bytes limit);

/// "topk:100", "fp16", "none"
std::string to_string(Codec);
/// The inverse of `to_string`. Throws std::invalid_argument that says what would be right.
Codec parse_codec(std::string_view);

/// An element ratio: a finite number, 1 or above. Throws std::invalid_argument. `format_ratio` is its inverse.
double parse_ratio(std::string_view);
std::string format_ratio(double);

/// What coding takes a tensor for: powersgd wants a matrix, tokens by features of [B, T, d], channels by pixels of
/// [B, C, H, W]; the others take it as it is.
Shape coded_shape(const Tensor&, CodecKind);

}  // namespace fusion
