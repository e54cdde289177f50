// The language models: GPT-2, and the Llama family. Each is described by a few numbers, which stand in a built-in's row
// or come from a Hugging Face config.json (hugging_face.cpp). Parameters are named as in the published checkpoints.
//
// Left out, since they change no cost a planner sees: dropout of attention probabilities, scaling of rotary angles.
// Attention is unfused (`flash` of the op's row is false): the probabilities are kept for backward.
#pragma once

#include <string>
#include <vector>

#include "core/graph/builder.h"
#include "core/graph/models.h"

namespace fusion {

/// GPT-2 (Radford et al., 2019), with the defaults of its smallest published size.
struct Gpt2 {
  std::int64_t vocabulary = 50257, positions = 1024, features = 768, layers = 12, heads = 12;
  std::int64_t inner = 0;  ///< width of the MLP; 0: four times the features
  OpKind activation = OpKind::gelu;
  std::vector<Attribute> activation_attributes = {{"tanh", true}};
  double eps = 1e-5;
  double embedding_dropout = 0.1, residual_dropout = 0.1;  ///< 0 leaves the op out
  bool tied = true;                                        ///< the output layer is the token embedding
};

/// Llama (Touvron et al., 2023) and what shares its block: grouped queries, rotary positions, gated MLP.
struct Llama {
  std::int64_t vocabulary = 0, positions = 0, features = 0, layers = 0, heads = 0;
  std::int64_t kv_heads = 0, head = 0;  ///< key and value heads, features of one head
  std::int64_t inner = 0;
  OpKind activation = OpKind::silu;
  std::vector<Attribute> activation_attributes;
  double eps = 1e-6, rotary_base = 1e4;
  bool qkv_bias = false, output_bias = false, mlp_bias = false;
  bool tied = false;
};

/// `source` names the model's file or built-in in errors. Throws InputError for options the model can't take, such as
/// a sequence longer than its positions.
Graph build_gpt2(const std::string& name, const Gpt2&, const ModelOptions&, const std::string& source);
Graph build_llama(const std::string& name, const Llama&, const ModelOptions&, const std::string& source);

/// T that the options ask for: at least 1 and at most `maximum`; by default 1,024, or the maximum if lower.
std::int64_t sequence_length(const ModelOptions&, std::int64_t maximum, const std::string& source);

/// Refuses an option that the model does not read, rather than to ignore it.
void refuse_image_size(const ModelOptions&, const std::string& source);
void refuse_sequence_length(const ModelOptions&, const std::string& source);

}  // namespace fusion
