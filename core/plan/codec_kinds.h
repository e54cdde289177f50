// Kinds of codec beyond those that code asks for by name, and the shape that one of them wants.
#pragma once

#include "core/plan/codec.h"

namespace fusion {

inline constexpr CodecKind int4_codec{6}, hadamard_int4_codec{7}, aq_codec{8}, power_sgd_codec{9}, topk_int8_codec{10};

/// What coding takes a tensor for: powersgd wants a matrix, tokens by features of [B, T, d], channels by pixels of
/// [B, C, H, W]; the others take it as it is.
Shape coded_shape(const Tensor&, CodecKind);

}  // namespace fusion
