// The table of compressors: one row each, with what it promises.
//
// A codec turns a tensor of fp32 values into bytes and back. Two kinds of memory may belong to it, both in a
// TensorState that is kept under the tensor's stable name (state.h):
//   residual   error feedback: what the sender has left out so far, added to the next tensor (Stich et al. 2018,
//              arXiv 1809.07599; Karimireddy et al. 2019, arXiv 1901.09847)
//   reference  what the receiver holds: `aq` codes the change against it
//
// Envelope, little-endian, checked by the reader as hostile bytes are:
//   offset  bytes
//        0      4  "FLNC"
//        4      1  version, 1
//        5      1  codec, the number of its row
//        6      2  zero
//        8      8  elements n
//       16      8  step of the sender's state: 0, 1, 2, …
//       24      8  XXH3-64 of the whole with this field zero
//       32         payload; none, fp16, bf16, topk, threshold and dct-topk: a message of wire.h; the others: at the top
//       of
//                  their source
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/compress/topk.h"
#include "core/compress/wire.h"

namespace fusion::compress {

enum class Method : std::uint8_t {
  none,
  fp16,
  bf16,
  int8,
  int4,
  topk,
  random_k,
  threshold,
  sign,
  qsgd,
  natural,
  power_sgd,
  aq,
  hadamard_int4,
  dct_topk
};

/// A tensor with a value that is not finite: the state is as it was before.
class NotFinite : public RuntimeFault {
 public:
  NotFinite(std::string_view tensor, std::uint64_t index);
  std::uint64_t index;
};

inline constexpr std::size_t envelope_bytes = 32;

/// What a user may set; rows ignore what is not theirs.
struct MethodOptions {
  double keep = 0.01;                     ///< kept fraction of topk, random-k, dct-topk; in (0, 1]
  float threshold = 0.01f;                ///< of `threshold`: the least magnitude sent, above 0
  ValueFormat value = ValueFormat::fp16;  ///< of topk, threshold, dct-topk
  std::optional<IndexFormat> index = {};  ///< of the same; absent: whatever is smallest
  int rank = 4;                           ///< of powersgd, 1 or more
  bool stochastic = false;                ///< int8, int4: round at random, so that the mean is right
  bool feedback = true;                   ///< rows that keep a residual: keep it
  std::uint64_t seed = 0;                 ///< of whatever is random
  Target target = best_target();
};

/// What a codec remembers of one tensor.
struct TensorState {
  Shape shape;                   ///< of the first tensor; another one later is an error
  std::uint64_t step = 0;        ///< tensors coded or decoded so far
  AlignedFloats residual;        ///< empty before the first step, and for rows that keep none
  std::vector<float> reference;  ///< aq: what the receiver holds; powersgd: Q of the last step
  float hint = 0;                ///< topk: threshold of the last step
  bool operator==(const TensorState&) const = default;
};

/// Scratch for any number of tensors.
struct CodecWorkspace {
  TopkWorkspace topk;
  Selection selection;
  Buffer<float> sum, next, decoded;
  AlignedFloats residual;
  std::vector<float> sent;
  Message received;
};

enum class Guarantee : std::uint8_t {
  exact,        ///< C(x) == x to the last bit
  contraction,  ///< ||x - C(x)||^2 <= c ||x||^2 for every x, c < 1 (and at most 1 for powersgd)
  unbiased,     ///< E C(x) = x and E ||x - C(x)||^2 <= c ||x||^2
  bounded       ///< |x - C(x)| < threshold for every element, and nothing in proportion to ||x||
};

/// Time over that of a plain read pass over the fp32 tensor, in the same run on the same processor.
struct Passes {
  double encode, decode;
};

struct MethodRow {
  Method method;
  std::string_view name;
  std::string_view help;
  Guarantee guarantee;
  /// c of the guarantee, for a tensor of this shape. All hold up to n 2^-250, where subnormal numbers end.
  double (*constant)(const Shape&, const MethodOptions&);
  bool feedback;   ///< keeps a residual
  bool reference;  ///< both ends keep what was decoded last
  /// Bytes of the payload. Where the first message is larger than the others, it is `most`.
  WireSize (*payload_size)(const Shape&, const MethodOptions&);
  /// Measured at 16.8M Gaussian elements, keep 1 %, on one thread with AVX-512: encode_passes and decode_passes of
  /// `fusion-bench compress --json`.
  Passes passes;
  /// Appends the payload for x (residual already added). `decoded` receives what the receiver will see; it is empty for
  /// rows without feedback and reference, which never ask.
  void (*encode)(std::span<const float> x, const MethodOptions&, TensorState&, CodecWorkspace&,
                 std::vector<std::byte>& out, std::span<float> decoded);
  /// Throws RuntimeFault for a payload that no encoder gives.
  void (*decode)(std::span<const std::byte> payload, std::uint64_t step, TensorState&, CodecWorkspace&,
                 std::span<float> out);
  /// Takes the place of `encode`, the check for finite values and error feedback where one pass does them all; else
  /// nullptr. Returns the first element that is not finite, having changed nothing.
  std::optional<std::uint64_t> (*fused)(std::span<const float> x, const Shape&, bool feedback, const MethodOptions&,
                                        TensorState&, CodecWorkspace&, std::vector<std::byte>& out) = nullptr;
};

std::span<const MethodRow> method_table();
const MethodRow& row_of(Method);
/// nullptr where there is none.
const MethodRow* find_method(std::string_view name);

/// Bytes that encode() gives for a tensor of this shape, the envelope included.
WireSize wire_size(Method, const Shape&, const MethodOptions&);

/// Codes the next tensor of a state. Replaces `out`. Throws NotFinite, naming `tensor`, and InputError for a shape that
/// is not the state's; both leave the state as it was.
void encode(Method, std::string_view tensor, std::span<const float> x, const Shape&, const MethodOptions&, TensorState&,
            CodecWorkspace&, std::vector<std::byte>& out);

/// Decodes the next tensor of a state into `out`. Throws RuntimeFault for damaged bytes, another codec, another size,
/// or a step that is not the state's next: a lost or repeated message, or a state that was not restored.
void decode(Method, std::string_view tensor, std::span<const std::byte> bytes, const Shape&, TensorState&,
            CodecWorkspace&, std::span<float> out);

/// Puts the checksum of an envelope right; encode() has done it.
void seal(std::span<std::byte> envelope);

}  // namespace fusion::compress
