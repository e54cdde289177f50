// topk, threshold and dct-topk: a selection as a message of wire.h. dct-topk selects among the coefficients of tiles of
// 64 (DeMo, arXiv 2411.19870), which the message carries in place of elements.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "core/compress/codec_rows.h"

namespace fusion::compress::rows {
namespace {

/// ws.sent is what the reader will see.
void append_kept(const Selection& s, const Shape& shape, const MethodOptions& options, CodecWorkspace& ws, Out out) {
  append_message(s, DType::fp32, shape, {options.value, options.index}, out, &ws.sent);
}

/// Selection and error feedback in one pass. The residual is made beside the old one and takes its place at the end.
std::optional<std::uint64_t> encode_topk(Values x, const Shape& shape, bool feedback, const MethodOptions& options,
                                         TensorState& state, CodecWorkspace& ws, Out out) {
  const TopkOptions how{.target = options.target, .hint = state.hint};
  const std::uint64_t k = kept_of(x.size(), options.keep);
  const bool sums = feedback && !state.residual.empty();
  if (feedback) ws.residual.resize(x.size());
  if (sums) {
    top_k_feedback<float>(x, state.residual, ws.residual, k, ws.selection, ws.topk, how);
  } else {
    top_k<float>(x, k, ws.selection, ws.topk, how);
    if (feedback) std::copy(x.begin(), x.end(), ws.residual.begin());
  }
  const Selection& s = ws.selection;
  if (s.not_finite) return s.not_finite;
  append_kept(s, shape, options, ws, out);
  state.hint = s.threshold;
  if (!feedback) return {};
  for (std::size_t i = 0; i < s.index.size(); ++i) ws.residual[s.index[i]] = s.value[i] - ws.sent[i];
  std::swap(state.residual, ws.residual);
  return {};
}

void encode_threshold(Values x, const MethodOptions& options, TensorState& state, CodecWorkspace& ws, Out out,
                      std::span<float> decoded) {
  check(options.threshold > 0, "a threshold is above zero");
  Selection& s = ws.selection;
  s.index.clear();
  s.value.clear();
  s.elements = x.size();
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::abs(x[i]) >= options.threshold) {
      s.index.push_back(i);
      s.value.push_back(x[i]);
    }
  append_selection(s, state.shape, options, ws, out, decoded);
}

constexpr std::size_t tile = 64;

/// Row f is the orthonormal DCT-II's basis function of frequency f.
const std::array<std::array<float, tile>, tile>& basis() {
  static const auto table = [] {
    std::array<std::array<float, tile>, tile> rows{};
    for (std::size_t f = 0; f < tile; ++f)
      for (std::size_t i = 0; i < tile; ++i)
        rows[f][i] = static_cast<float>(
            std::sqrt((f == 0 ? 1.0 : 2.0) / tile) *
            std::cos(std::numbers::pi / tile * (static_cast<double>(i) + 0.5) * static_cast<double>(f)));
    return rows;
  }();
  return table;
}

/// Elements after the last whole tile stay as they are.
void to_frequencies(Values x, std::span<float> out) {
  std::copy(x.begin(), x.end(), out.begin());
  for (std::size_t at = 0; at + tile <= x.size(); at += tile)
    for (std::size_t f = 0; f < tile; ++f) {
      double sum = 0;
      for (std::size_t i = 0; i < tile; ++i) sum += static_cast<double>(x[at + i]) * static_cast<double>(basis()[f][i]);
      out[at + f] = static_cast<float>(sum);
    }
}

void to_elements(std::span<float> x) {
  for (std::size_t at = 0; at + tile <= x.size(); at += tile) {
    std::array<double, tile> sums{};
    for (std::size_t f = 0; f < tile; ++f) {
      if (x[at + f] == 0) continue;
      for (std::size_t i = 0; i < tile; ++i)
        sums[i] += static_cast<double>(x[at + f]) * static_cast<double>(basis()[f][i]);
    }
    for (std::size_t i = 0; i < tile; ++i) x[at + i] = static_cast<float>(sums[i]);
  }
}

void encode_dct(Values x, const MethodOptions& options, TensorState& state, CodecWorkspace& ws, Out out,
                std::span<float> decoded) {
  ws.next.reserve(x.size());
  const auto coefficients = ws.next.first(x.size());
  to_frequencies(x, coefficients);
  top_k<float>(coefficients, kept_of(x.size(), options.keep), ws.selection, ws.topk,
               {.target = options.target, .hint = state.hint});
  if (ws.selection.not_finite) throw RuntimeFault("dct-topk: a coefficient is beyond fp32");
  state.hint = ws.selection.threshold;
  append_selection(ws.selection, state.shape, options, ws, out, decoded);
  to_elements(decoded);
}

void decode_dct(std::span<const std::byte> payload, std::uint64_t step, TensorState& state, CodecWorkspace& ws,
                std::span<float> out) {
  decode_message(payload, step, state, ws, out);
  to_elements(out);
}

/// The kept part holds at least k / n of ||x||^2, and of it the value format loses a share q at most.
double sparse_constant(const Shape& shape, const MethodOptions& options) {
  constexpr std::array<double, 5> lost{0, 0x1p-21, 0x1p-15, 1, 1};  // logarithmic levels: their ratio is the tensor's
  const auto n = static_cast<double>(elements_of(shape));
  if (n == 0) return 0;
  const auto k = static_cast<double>(kept_of(elements_of(shape), options.keep));
  return 1 - k / n * (1 - lost[static_cast<std::size_t>(options.value)]);
}

WireSize kept_size(const Shape& shape, const MethodOptions& options) {
  return message_size(shape, kept_of(elements_of(shape), options.keep), {options.value, options.index});
}
/// Only the values tell how many reach the threshold: all, for what anyone may rely on.
WireSize unknown_size(const Shape& shape, const MethodOptions& options) {
  WireSize size = message_size(shape, elements_of(shape), {options.value, options.index});
  size.exact = false;
  return size;
}

double dct_constant(const Shape& shape, const MethodOptions& options) { return sparse_constant(shape, options) + 1e-6; }
double one(const Shape&, const MethodOptions&) { return 1; }

}  // namespace

std::uint64_t kept_of(std::uint64_t elements, double keep) {
  check(keep > 0 && keep <= 1, "a kept fraction lies in (0, 1]");
  return std::clamp<std::uint64_t>(static_cast<std::uint64_t>(std::llround(keep * static_cast<double>(elements))),
                                   std::min<std::uint64_t>(elements, 1), elements);
}

void append_selection(const Selection& s, const Shape& shape, const MethodOptions& options, CodecWorkspace& ws, Out out,
                      std::span<float> decoded) {
  append_kept(s, shape, options, ws, out);
  std::fill(decoded.begin(), decoded.end(), 0.0f);
  for (std::size_t i = 0; i < s.index.size(); ++i) decoded[s.index[i]] = ws.sent[i];
}

const MethodRow topk{
    .method = Method::topk,
    .name = "topk",
    .help = "the largest magnitudes, exactly",
    .guarantee = Guarantee::contraction,
    .constant = sparse_constant,
    .feedback = true,
    .reference = false,
    .payload_size = kept_size,
    .passes = {1.6, 2.8},
    .encode = nullptr,
    .decode = decode_message,
    .fused = encode_topk,
};
const MethodRow threshold{
    .method = Method::threshold,
    .name = "threshold",
    .help = "every element of at least a given magnitude",
    .guarantee = Guarantee::bounded,
    .constant = one,
    .feedback = true,
    .reference = false,
    .payload_size = unknown_size,
    .passes = {8, 2.8},
    .encode = encode_threshold,
    .decode = decode_message,
};
const MethodRow dct_topk{
    .method = Method::dct_topk,
    .name = "dct-topk",
    .help = "the largest cosine coefficients of tiles (arXiv 2411.19870)",
    .guarantee = Guarantee::contraction,
    .constant = dct_constant,
    .feedback = true,
    .reference = false,
    .payload_size = kept_size,
    .passes = {135, 11},
    .encode = encode_dct,
    .decode = decode_dct,
};

}  // namespace fusion::compress::rows
