// The message that carries a tensor, sparse or dense. All numbers are little-endian.
//
//   offset  bytes
//        0      4  "FLNW"
//        4      1  version, 1
//        5      1  dtype of the tensor: 0 fp32, 1 fp16, 2 bf16
//        6      1  index format: 0 none (dense: all n elements in order), 1 raw32, 2 raw64, 3 byte delta, 4 Rice, 5
//        bitmap 7      1  value format: 0 fp32, 1 fp16, 2 bf16, 3 int8 logarithmic, 4 int4 logarithmic 8      1  rank
//        r, at most 8 9      7  zero
//       16      8  k, the number of values; n where dense
//       24      8  bytes of the index section
//       32      8  bytes of the value section
//       40      4  fp32: scale of fp16, threshold of the logarithmic formats, else 0
//       44      4  fp32: ratio of the logarithmic formats, else 0
//       48      8  XXH3-64 of the whole message with this field zero
//       56    8 r  shape, each below 2^62, as is the number of elements n
//   56 + 8 r       index section (index_format.h), then value section (value_format.h), then nothing
//
// The reader trusts nothing: it checks the checksum against accidents, and every length, count and index against
// malice; it allocates no more than 24 bytes per byte of the message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/compress/index_format.h"
#include "core/compress/topk.h"
#include "core/compress/value_format.h"
#include "core/graph/graph.h"

namespace fusion::compress {

struct WireOptions {
  ValueFormat value = ValueFormat::fp16;
  /// Absent: whatever is smallest, and dense where that is smaller still.
  std::optional<IndexFormat> index;
};

/// The product of the dimensions: 1 for a scalar, 0 where a dimension is.
std::uint64_t elements_of(const Shape&);

/// What a message holds.
struct Message {
  DType dtype = DType::fp32;
  Shape shape;
  IndexFormat index_format = IndexFormat::none;
  ValueFormat value_format = ValueFormat::fp32;
  std::uint64_t index_section = 0, value_section = 0;  ///< bytes
  std::vector<std::uint64_t> index;                    ///< empty where dense
  std::vector<float> value;
  bool dense() const { return index_format == IndexFormat::none; }
};

/// Bytes that a tensor of a given shape takes, before its values are known.
struct WireSize {
  std::uint64_t expected = 0;  ///< on average, where any support is as likely as any other; real ones cluster: fewer
  std::uint64_t most = 0;      ///< for any values
  bool exact = true;           ///< every tensor of this shape takes `expected`
};
WireSize message_size(const Shape&, std::uint64_t kept, const WireOptions&);
WireSize dense_message_size(const Shape&, ValueFormat);

/// Appends the message of a selection whose `elements` is the shape's product. Values must be finite. `sent` receives
/// the selection's values as the reader will see them, for error feedback.
void append_message(const Selection&, DType, const Shape&, const WireOptions&, std::vector<std::byte>& out,
                    std::vector<float>* sent = nullptr);

/// All elements of a tensor.
void append_dense_message(std::span<const float> values, DType, const Shape&, ValueFormat, std::vector<std::byte>& out,
                          std::vector<float>* sent = nullptr);

/// The same in the place of what `out` held.
inline void write_message(const Selection& s, DType dtype, const Shape& shape, const WireOptions& options,
                          std::vector<std::byte>& out, std::vector<float>* sent = nullptr) {
  out.clear();
  append_message(s, dtype, shape, options, out, sent);
}
inline void write_dense_message(std::span<const float> values, DType dtype, const Shape& shape, ValueFormat format,
                                std::vector<std::byte>& out, std::vector<float>* sent = nullptr) {
  out.clear();
  append_dense_message(values, dtype, shape, format, out, sent);
}

/// Replaces `out`, whose memory it reuses. Throws RuntimeFault, saying what is wrong with the message.
void read_message(std::span<const std::byte> bytes, Message& out);

/// Reads a message of a tensor of this shape into the tensor, zeros included. Throws as read_message does, and for
/// another shape; `out` is then unspecified.
void read_tensor(std::span<const std::byte> bytes, const Shape&, std::span<float> out, Message& scratch);

/// The checksum that belongs into a message of at least 56 bytes.
std::uint64_t message_checksum(std::span<const std::byte> bytes);

/// Writes the tensor, zeros included. `out` must have the shape's number of elements.
void scatter(const Message&, std::span<float> out);

}  // namespace fusion::compress
