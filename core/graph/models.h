// Models by name or file: the table of built-ins, Hugging Face config.json, and our own graph file.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/graph/graph.h"

namespace fusion {

/// What turns an architecture into the graph of one micro-batch. Zero means "the model's own default".
struct ModelOptions {
  std::int64_t micro_batch = 1;      ///< B
  std::int64_t sequence_length = 0;  ///< T; default 1,024 or the model's maximum if lower
  std::int64_t image_size = 0;       ///< H = W; default 224
  DType dtype = DType::fp32;         ///< of activations and parameters
  bool operator==(const ModelOptions&) const = default;
};

struct ModelRow {
  std::string_view name;
  std::string_view help;
  Graph (*build)(const ModelOptions&);
};

/// The built-ins of the command line.
std::span<const ModelRow> model_table();

/// A built-in's name, a Hugging Face config.json (GPT-2 and Llama families), or a graph file (.toml).
/// Throws InputError naming file and key, or the nearest built-in.
Graph load_model(const std::string& name_or_path, const ModelOptions&);

/// The graph file format is documented in graph_file.cpp; `write_graph` and `load_graph` are inverse.
Graph load_graph(const std::filesystem::path&, const ModelOptions&);
std::string write_graph(const Graph&);

}  // namespace fusion
