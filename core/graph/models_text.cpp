#include "core/graph/models_text.h"

#include <algorithm>

#include "core/base/error.h"

namespace fusion {
namespace {

/// [B, T] token ids, and T noted in the graph.
TensorId start(GraphBuilder& net, const ModelOptions& options, std::int64_t tokens) {
  net.tokens_per_sample(tokens);
  net.block("embedding");
  return net.tokens("input_ids", {options.micro_batch, tokens});
}

/// Logits [B, T, V] by a layer that may be the embedding again, and the loss.
void finish_text(GraphBuilder& net, TensorId x, std::int64_t vocabulary, const char* tied_to) {
  std::vector<GraphBuilder::Tie> ties;
  if (tied_to != nullptr) ties.push_back({"weight", tied_to});
  const TensorId logits = net.linear("lm_head", x, vocabulary, false, ties);
  const Shape shape = net.tensor(x).shape;
  net.cross_entropy("loss", logits, net.label("labels", {shape[0], shape[1]}));
}

TensorId dropout(GraphBuilder& net, std::string name, TensorId x, double p) {
  return p == 0 ? x : net.unary(OpKind::dropout, std::move(name), x, {{"p", p}});
}

TensorId gpt2_attention(GraphBuilder& net, const std::string& at, TensorId x, const Gpt2& model) {
  const std::int64_t c = model.features;
  const TensorId qkv = net.linear(at + ".c_attn", x, 3 * c);
  const auto parts = net.add(OpKind::split, at + ".split", {qkv}, {{"axis", -1}, {"sizes", Shape{c, c, c}}});
  x = net.add(OpKind::attention, at, parts, {{"heads", model.heads}, {"causal", true}})[0];
  x = net.linear(at + ".c_proj", x, c);
  return dropout(net, at + ".resid_dropout", x, model.residual_dropout);
}

TensorId gpt2_mlp(GraphBuilder& net, const std::string& at, TensorId x, const Gpt2& model) {
  x = net.linear(at + ".c_fc", x, model.inner == 0 ? 4 * model.features : model.inner);
  x = net.unary(model.activation, at + ".act", x, model.activation_attributes);
  x = net.linear(at + ".c_proj", x, model.features);
  return dropout(net, at + ".dropout", x, model.residual_dropout);
}

/// x + attention(norm(x)), then x + mlp(norm(x)).
TensorId gpt2_block(GraphBuilder& net, const std::string& at, TensorId x, const Gpt2& model) {
  const std::vector<Attribute> eps = {{"eps", model.eps}};
  const TensorId attended =
      gpt2_attention(net, at + ".attn", net.unary(OpKind::layer_norm, at + ".ln_1", x, eps), model);
  x = net.add(at + ".attn.add", attended, x);
  return net.add(at + ".add", gpt2_mlp(net, at + ".mlp", net.unary(OpKind::layer_norm, at + ".ln_2", x, eps), model),
                 x);
}

TensorId llama_attention(GraphBuilder& net, const std::string& at, TensorId x, const Llama& model) {
  const TensorId q = net.linear(at + ".q_proj", x, model.heads * model.head, model.qkv_bias);
  const TensorId k = net.linear(at + ".k_proj", x, model.kv_heads * model.head, model.qkv_bias);
  const TensorId v = net.linear(at + ".v_proj", x, model.kv_heads * model.head, model.qkv_bias);
  const std::vector<Attribute> attributes = {
      {"heads", model.heads}, {"kv_heads", model.kv_heads}, {"causal", true}, {"rotary_base", model.rotary_base}};
  x = net.add(OpKind::attention, at, {q, k, v}, attributes)[0];
  return net.linear(at + ".o_proj", x, model.features, model.output_bias);
}

/// down(act(gate(x)) * up(x)).
TensorId llama_mlp(GraphBuilder& net, const std::string& at, TensorId x, const Llama& model) {
  TensorId gate = net.linear(at + ".gate_proj", x, model.inner, model.mlp_bias);
  gate = net.unary(model.activation, at + ".act_fn", gate, model.activation_attributes);
  const TensorId up = net.linear(at + ".up_proj", x, model.inner, model.mlp_bias);
  return net.linear(at + ".down_proj", net.mul(at + ".mul", gate, up), model.features, model.mlp_bias);
}

TensorId llama_block(GraphBuilder& net, const std::string& at, TensorId x, const Llama& model) {
  const std::vector<Attribute> eps = {{"eps", model.eps}};
  TensorId branch = net.unary(OpKind::rms_norm, at + ".input_layernorm", x, eps);
  x = net.add(at + ".self_attn.add", llama_attention(net, at + ".self_attn", branch, model), x);
  branch = net.unary(OpKind::rms_norm, at + ".post_attention_layernorm", x, eps);
  return net.add(at + ".add", llama_mlp(net, at + ".mlp", branch, model), x);
}

}  // namespace

std::int64_t sequence_length(const ModelOptions& options, std::int64_t maximum, const std::string& source) {
  constexpr std::int64_t usual = 1024;
  const std::int64_t wanted = options.sequence_length == 0 ? std::min(usual, maximum) : options.sequence_length;
  if (wanted < 1)
    throw InputError(source, "sequence_length",
                     std::to_string(wanted) + " tokens are no sequence; 1 or more are wanted");
  if (wanted > maximum)
    throw InputError(
        source, "sequence_length",
        std::to_string(wanted) + " is beyond the model's maximum of " + std::to_string(maximum) + " tokens");
  return wanted;
}

void refuse_image_size(const ModelOptions& options, const std::string& source) {
  if (options.image_size != 0)
    throw InputError(source, "image_size",
                     std::to_string(options.image_size) + " is given, but the model reads no pictures");
}

void refuse_sequence_length(const ModelOptions& options, const std::string& source) {
  if (options.sequence_length != 0)
    throw InputError(source, "sequence_length",
                     std::to_string(options.sequence_length) + " is given, but the model reads no sequences");
}

Graph build_gpt2(const std::string& name, const Gpt2& model, const ModelOptions& options, const std::string& source) {
  refuse_image_size(options, source);
  GraphBuilder net(name, options.micro_batch, options.dtype, source);
  const TensorId tokens = start(net, options, sequence_length(options, model.positions, source));
  TensorId x = net.embedding("wte", tokens, model.vocabulary, model.features);
  x = net.add("embed", x,
              net.unary(OpKind::embedding, "wpe", tokens,
                        {{"rows", model.positions}, {"features", model.features}, {"positions", true}}));
  x = dropout(net, "drop", x, model.embedding_dropout);
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    net.block(std::to_string(layer));
    x = gpt2_block(net, "h." + std::to_string(layer), x, model);
  }
  net.block("head");
  x = net.unary(OpKind::layer_norm, "ln_f", x, {{"eps", model.eps}});
  finish_text(net, x, model.vocabulary, model.tied ? "wte.weight" : nullptr);
  return std::move(net).finish();
}

Graph build_llama(const std::string& name, const Llama& model, const ModelOptions& options, const std::string& source) {
  refuse_image_size(options, source);
  GraphBuilder net(name, options.micro_batch, options.dtype, source);
  const TensorId tokens = start(net, options, sequence_length(options, model.positions, source));
  TensorId x = net.embedding("model.embed_tokens", tokens, model.vocabulary, model.features);
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    net.block(std::to_string(layer));
    x = llama_block(net, "model.layers." + std::to_string(layer), x, model);
  }
  net.block("head");
  x = net.unary(OpKind::rms_norm, "model.norm", x, {{"eps", model.eps}});
  finish_text(net, x, model.vocabulary, model.tied ? "model.embed_tokens.weight" : nullptr);
  return std::move(net).finish();
}

}  // namespace fusion
