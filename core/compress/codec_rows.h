// The functions behind the table's rows, a source per family. Private to core/compress.
#pragma once

#include "core/compress/codec.h"
#include "core/compress/payload.h"

namespace fusion::compress::rows {

using Out = std::vector<std::byte>&;
using Values = std::span<const float>;

// codec_dense.cpp
void decode_message(std::span<const std::byte>, std::uint64_t, TensorState&, CodecWorkspace&, std::span<float>);
extern const MethodRow none, fp16, bf16, int8, int4, hadamard_int4, aq;
// codec_random.cpp
extern const MethodRow random_k, sign, qsgd, natural;
// codec_sparse.cpp
extern const MethodRow topk, threshold, dct_topk;
// codec_low_rank.cpp
extern const MethodRow power_sgd;

/// Writes a selection as a wire message and, into `decoded`, what its reader will see.
void append_selection(const Selection&, const Shape&, const MethodOptions&, CodecWorkspace&, Out,
                      std::span<float> decoded);

/// Of payloads whose size the shape decides.
constexpr WireSize exactly(std::uint64_t bytes) { return {bytes, bytes, true}; }

/// k = keep n, at least 1 where there is an element.
std::uint64_t kept_of(std::uint64_t elements, double keep);

}  // namespace fusion::compress::rows
