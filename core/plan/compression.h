// How cut edges are compressed: one row each. Given a placement, a row fills the codecs of its edges.
//
//   none | fp16 | bf16 | int8          the same dense codec on every edge
//   uniform-topk:R                     element ratio R on every edge
//   uniform-topk-raw:R                 the same in the naive format of 12 bytes per element
//   adatopk:R                          AdaTopK: a directed edge sends max_f C_f / (R C_e) of its bytes
//   adatopk-slack                      the smallest r_e at which no edge is the bottleneck
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/plan/stage_costs.h"

namespace fusion {

struct CompressionRow;

/// Which edges a row compresses: what a policy has to know before there are any.
enum class Reach : std::uint8_t {
  everywhere,  ///< every edge alike
  by_link,     ///< the slowest edge by the whole ratio, faster ones by less
  by_need      ///< an edge that would be the bottleneck, until it is not
};

/// A row and its setting: "adatopk:100".
struct Compression {
  const CompressionRow* row = nullptr;
  double ratio = 1;
};

struct CompressionRow {
  std::string_view name;
  std::string_view help;
  bool takes_ratio;
  double default_ratio;
  CodecKind codec;
  Reach reach;
  /// Sets `activation` and `gradient` of every edge of the schedule.
  void (*apply)(Schedule&, double ratio, const Graph&, const Costs&, const Platform&);
};

std::span<const CompressionRow> compression_table();

/// "adatopk:100", "fp16"; "adatopk" alone takes the row's default ratio. Throws std::invalid_argument, as every parser
/// of one value does, for an unknown name (with the nearest), and a ratio that is below 1, not finite, empty, followed
/// by anything else, or not wanted.
Compression parse_compression(std::string_view);
std::string to_string(const Compression&);

}  // namespace fusion
