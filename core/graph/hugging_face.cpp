#include "core/graph/hugging_face.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/base/json_file.h"
#include "core/graph/models_text.h"

namespace fusion {
namespace {

/// Bounds that no real network comes near, so that a slip of the keyboard doesn't build a graph for hours.
constexpr std::int64_t max_size = std::int64_t{1} << 30, max_layers = 10'000;

std::int64_t size(const JsonObject& config, std::string_view key, std::optional<std::int64_t> fallback = {}) {
  if (fallback && !config.has_value(key)) return *fallback;
  return config.integer(key, 1, max_size);
}

bool flag(const JsonObject& config, std::string_view key, bool fallback) {
  return config.has_value(key) ? config.boolean(key) : fallback;
}

/// A real number in [low, high).
double real(const JsonObject& config, std::string_view key, double fallback, double low, double high) {
  if (!config.has_value(key)) return fallback;
  const double value = config.real(key);
  if (value < low || value >= high)
    throw config.error(key, std::to_string(value) + " is out of range; at least " + std::to_string(low) +
                                " and below " + std::to_string(high) + " is wanted");
  return value;
}

struct Activation {
  std::string_view name;
  OpKind kind;
  bool tanh;
};
constexpr std::array activations = {
    Activation{"gelu", OpKind::gelu, false},    Activation{"gelu_fast", OpKind::gelu, true},
    Activation{"gelu_new", OpKind::gelu, true}, Activation{"gelu_pytorch_tanh", OpKind::gelu, true},
    Activation{"relu", OpKind::relu, false},    Activation{"silu", OpKind::silu, false},
    Activation{"swish", OpKind::silu, false}};

template <class Model>
void read_activation(const JsonObject& config, std::string_view key, std::string_view fallback, Model& model) {
  const std::string name = config.has_value(key) ? config.string(key) : std::string(fallback);
  const auto found = std::ranges::find(activations, name, &Activation::name);
  if (found == activations.end()) {
    std::vector<std::string_view> names;
    for (const Activation& each : activations) names.push_back(each.name);
    throw config.error(key, unknown_name(name, names));
  }
  model.activation = found->kind;
  model.activation_attributes.clear();
  if (found->kind == OpKind::gelu) model.activation_attributes = {{"tanh", found->tanh}};
}

void require_divides(const JsonObject& config, std::string_view key, std::int64_t value, std::string_view whole_key,
                     std::int64_t whole) {
  if (whole % value != 0)
    throw config.error(key, std::to_string(value) + " doesn't divide " + std::string(whole_key) + ", which is " +
                                std::to_string(whole));
}

/// Keys that, when set, make another network than the one we would build.
void refuse_unsupported(const JsonObject& config) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> keys = {{
      {"num_local_experts", "a mixture of experts"},
      {"num_experts", "a mixture of experts"},
      {"n_routed_experts", "a mixture of experts"},
      {"quantization_config", "quantised weights"},
      {"partial_rotary_factor", "rotary positions on a part of a head"},
      {"vision_config", "a vision tower"},
      {"q_lora_rank", "latent attention"},
      {"kv_lora_rank", "latent attention"},
  }};
  for (const auto& [key, what] : keys)
    if (config.has_value(key)) throw config.error(key, "means " + std::string(what) + ", which is not supported");
  for (const std::string_view key : {"is_encoder_decoder", "add_cross_attention"})
    if (flag(config, key, false)) throw config.error(key, "true is not supported; only decoders are");
}

/// `architectures` is optional; where it stands it must be the language model itself, not a classifier upon it.
void require_architecture(const JsonObject& config, std::string_view wanted) {
  if (!config.has_value("architectures")) return;
  for (const std::string& name : config.strings("architectures"))
    if (name != wanted)
      throw config.error("architectures", '"' + name + "\" is not supported; \"" + std::string(wanted) + "\" is");
}

Graph load_gpt2(const JsonObject& config, const std::string& name, const ModelOptions& options,
                const std::string& source) {
  require_architecture(config, "GPT2LMHeadModel");
  Gpt2 model;
  model.vocabulary = size(config, "vocab_size");
  model.positions = size(config, "n_positions");
  model.features = size(config, "n_embd");
  model.layers = config.integer("n_layer", 1, max_layers);
  model.heads = size(config, "n_head");
  model.inner = size(config, "n_inner", 4 * model.features);
  model.eps = real(config, "layer_norm_epsilon", 1e-5, 0, 1);
  model.embedding_dropout = real(config, "embd_pdrop", 0.1, 0, 1);
  model.residual_dropout = real(config, "resid_pdrop", 0.1, 0, 1);
  model.tied = flag(config, "tie_word_embeddings", true);
  read_activation(config, "activation_function", "gelu_new", model);
  require_divides(config, "n_head", model.heads, "n_embd", model.features);
  return build_gpt2(name, model, options, source);
}

/// A window that the sequence does not outgrow changes nothing; one that it does is another attention.
void refuse_short_window(const JsonObject& config, const Llama& model, const ModelOptions& options,
                         const std::string& source) {
  if (!config.has_value("sliding_window") || !flag(config, "use_sliding_window", true)) return;
  const std::int64_t window = size(config, "sliding_window"),
                     tokens = sequence_length(options, model.positions, source);
  if (tokens > window)
    throw config.error("sliding_window", std::to_string(window) + " is shorter than sequence_length, " +
                                             std::to_string(tokens) + "; windowed attention is not supported");
}

void read_heads(const JsonObject& config, Llama& model) {
  model.heads = size(config, "num_attention_heads");
  model.kv_heads = size(config, "num_key_value_heads", model.heads);
  if (!config.has_value("head_dim"))
    require_divides(config, "num_attention_heads", model.heads, "hidden_size", model.features);
  require_divides(config, "num_key_value_heads", model.kv_heads, "num_attention_heads", model.heads);
  model.head = size(config, "head_dim", model.features / model.heads);
  if (model.head % 2 != 0)
    throw config.error(
        config.has_value("head_dim") ? "head_dim" : "num_attention_heads",
        "gives heads of " + std::to_string(model.head) + " features; rotary positions need an even number");
}

Llama read_llama(const JsonObject& config) {
  Llama model;
  model.vocabulary = size(config, "vocab_size");
  model.positions = size(config, "max_position_embeddings");
  model.features = size(config, "hidden_size");
  model.layers = config.integer("num_hidden_layers", 1, max_layers);
  model.inner = size(config, "intermediate_size");
  read_heads(config, model);
  model.eps = real(config, "rms_norm_eps", 1e-6, 0, 1);
  model.rotary_base = real(config, "rope_theta", 1e4, 1, 1e15);
  model.tied = flag(config, "tie_word_embeddings", false);
  read_activation(config, "hidden_act", "silu", model);
  return model;
}

Graph finish_llama(const JsonObject& config, const Llama& model, const std::string& name, const ModelOptions& options,
                   const std::string& source) {
  refuse_short_window(config, model, options, source);
  return build_llama(name, model, options, source);
}

Graph load_llama(const JsonObject& config, const std::string& name, const ModelOptions& options,
                 const std::string& source) {
  require_architecture(config, "LlamaForCausalLM");
  Llama model = read_llama(config);
  model.qkv_bias = model.output_bias = flag(config, "attention_bias", false);
  model.mlp_bias = flag(config, "mlp_bias", false);
  return finish_llama(config, model, name, options, source);
}

Graph load_mistral(const JsonObject& config, const std::string& name, const ModelOptions& options,
                   const std::string& source) {
  require_architecture(config, "MistralForCausalLM");
  return finish_llama(config, read_llama(config), name, options, source);
}

/// q, k and v carry a bias, always.
Graph load_qwen2(const JsonObject& config, const std::string& name, const ModelOptions& options,
                 const std::string& source) {
  require_architecture(config, "Qwen2ForCausalLM");
  Llama model = read_llama(config);
  model.qkv_bias = true;
  return finish_llama(config, model, name, options, source);
}

struct FamilyRow {
  std::string_view model_type;
  Graph (*load)(const JsonObject&, const std::string& name, const ModelOptions&, const std::string& source);
};
constexpr std::array families = {FamilyRow{"gpt2", load_gpt2}, FamilyRow{"llama", load_llama},
                                 FamilyRow{"mistral", load_mistral}, FamilyRow{"qwen2", load_qwen2}};

const FamilyRow& family_of(const JsonObject& config) {
  const std::string type = config.string("model_type");
  const auto found = std::ranges::find(families, type, &FamilyRow::model_type);
  if (found != families.end()) return *found;
  std::vector<std::string_view> names;
  for (const FamilyRow& row : families) names.push_back(row.model_type);
  throw config.error("model_type", unknown_name(type, names));
}

}  // namespace

Graph load_hugging_face(const std::filesystem::path& path, const ModelOptions& options) {
  const JsonObject config = load_json(path);
  const FamilyRow& family = family_of(config);
  refuse_unsupported(config);
  // ".../gpt2/config.json" is gpt2, "my-model.json" is my-model.
  const bool in_folder = path.filename() == "config.json" && path.has_parent_path();
  const std::string name = (in_folder ? path.parent_path().filename() : path.stem()).string();
  return family.load(config, name, options, path.string());
}

}  // namespace fusion
