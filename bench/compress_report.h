// What fusion-bench compress prints: tables for people, JSON and CSV for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "bench/compress_figures.h"
#include "bench/compress_topk.h"

namespace fusion::bench {

using Json = nlohmann::ordered_json;

/// The first link decides `verdict`, each has its own under `links`.
Json to_json(const CodecFigures&, std::span<const std::string> links);
void print_table(std::span<const CodecFigures>, std::span<const std::string> links);
/// Rows of to_json; `links` is left out.
void print_csv(const Json& rows);

struct PartFigures {
  std::vector<SelectionFigures> selection;
  std::vector<HardFigures> hard;
  std::vector<IndexFigures> index;
};
Json to_json(const Sample&, const PartFigures&);
void print_parts(const PartFigures&);

/// "12.3" for 0.0123
std::string milliseconds(double time_s);

}  // namespace fusion::bench
