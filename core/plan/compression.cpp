#include "core/plan/compression.h"

#include <algorithm>
#include <array>

#include "core/base/names.h"
#include "core/plan/adatopk.h"
#include "core/plan/codec.h"
#include "core/platform/platform.h"

namespace fusion {
namespace {

/// Sets both directions of every edge, leaving out what no codec applies to: integers, and gradients that don't exist.
void set_all(Schedule& schedule, const Graph& graph, Codec codec) {
  for (CutEdge& edge : schedule.edges) {
    const Tensor& tensor = graph.tensor(edge.tensor);
    edge.activation = tensor.dtype == DType::int64 ? Codec{} : codec;
    edge.gradient = tensor.needs_gradient ? codec : Codec{};
  }
}

template <CodecKind kind>
void dense(Schedule& schedule, double, const Graph& graph, const Costs&, const Platform&) {
  set_all(schedule, graph, {kind, 1});
}

/// Exactly the ratio that was asked for, even where that is more bytes than the dense tensor; all is kept at 1.
template <CodecKind kind>
void uniform(Schedule& schedule, double ratio, const Graph& graph, const Costs&, const Platform&) {
  set_all(schedule, graph, ratio > 1 ? Codec{kind, ratio} : Codec{});
}

constexpr double usual_ratio = 100;
constexpr std::array rows = {
    CompressionRow{"none", "every cut tensor as it is", false, 1, CodecKind::none, Reach::everywhere,
                   dense<CodecKind::none>},
    CompressionRow{"fp16", "every cut tensor as fp16", false, 1, CodecKind::fp16, Reach::everywhere,
                   dense<CodecKind::fp16>},
    CompressionRow{"bf16", "every cut tensor as bf16", false, 1, CodecKind::bf16, Reach::everywhere,
                   dense<CodecKind::bf16>},
    CompressionRow{"int8", "every cut tensor as int8 in blocks", false, 1, CodecKind::int8, Reach::everywhere,
                   dense<CodecKind::int8>},
    CompressionRow{"int4", "every cut tensor as int4 in blocks", false, 1, CodecKind::int4, Reach::everywhere,
                   dense<CodecKind::int4>},
    CompressionRow{"hadamard-int4", "int4 blocks of the Hadamard transform: no element stands out", false, 1,
                   CodecKind::hadamard_int4, Reach::everywhere, dense<CodecKind::hadamard_int4>},
    CompressionRow{"aq", "the change since the edge's last message, as int4 (AQ-SGD, by edge and not by sample)", false,
                   1, CodecKind::aq, Reach::everywhere, dense<CodecKind::aq>},
    CompressionRow{"powersgd", "two factors of rank 4, of tokens by features or channels by pixels", false, 1,
                   CodecKind::power_sgd, Reach::everywhere, dense<CodecKind::power_sgd>},
    CompressionRow{"uniform-topk", "top-k on every edge; R is the element ratio: n / R elements are sent", true,
                   usual_ratio, CodecKind::topk, Reach::everywhere, uniform<CodecKind::topk>},
    CompressionRow{"uniform-topk-raw", "the same in the naive format: an fp32 value and an int64 index, 12 bytes", true,
                   usual_ratio, CodecKind::topk_raw, Reach::everywhere, uniform<CodecKind::topk_raw>},
    CompressionRow{
        "adatopk",
        "top-k, the more the slower the link; the slowest edge sends 1 / R of its bytes, the others less compressed",
        true, usual_ratio, CodecKind::topk, Reach::by_link, adatopk},
    CompressionRow{"adatopk-int8", "adatopk with values in eight bits: twice as many elements in the same bytes", true,
                   usual_ratio, CodecKind::topk_int8, Reach::by_link, adatopk_int8},
    CompressionRow{"adatopk-slack", "top-k only as far as no link is the bottleneck", false, 1, CodecKind::topk,
                   Reach::by_need, adatopk_slack},
};

}  // namespace

std::span<const CompressionRow> compression_table() { return rows; }

Compression parse_compression(std::string_view text) {
  const std::size_t colon = text.find(':');
  const CompressionRow& row = row_named(rows, text.substr(0, colon));
  if (colon == std::string_view::npos) return {&row, row.default_ratio};
  if (!row.takes_ratio)
    throw std::invalid_argument("\"" + std::string(text) + "\" has a ratio, and " + std::string(row.name) +
                                " takes none; write \"" + std::string(row.name) + "\"");
  try {
    return {&row, parse_ratio(text.substr(colon + 1))};
  } catch (const std::invalid_argument& wrong) {
    throw std::invalid_argument("\"" + std::string(text) + "\": " + wrong.what());
  }
}

std::string to_string(const Compression& compression) {
  const std::string name(compression.row->name);
  return compression.row->takes_ratio ? name + ":" + format_ratio(compression.ratio) : name;
}

}  // namespace fusion
