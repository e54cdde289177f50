// Reads the config.json of Hugging Face models: the GPT-2 family and the Llama family (llama, mistral, qwen2).
#pragma once

#include <filesystem>

#include "core/graph/models.h"

namespace fusion {

/// The graph of a model that its config.json describes. Keys that change no layer and no cost are not read. Throws
/// InputError naming file, key and value: not JSON, missing or wrong values, heads that do not divide, a model_type we
/// don't build, and keys that change the network in a way we don't build (experts, quantised weights, …).
Graph load_hugging_face(const std::filesystem::path& config, const ModelOptions&);

}  // namespace fusion
