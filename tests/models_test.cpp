// Models against their published parameter counts and FLOPs, and config.json files that are wrong in every way.
#include "core/graph/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/graph/ops.h"

namespace fusion {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::filesystem::path experiments = FUSION_SOURCE_DIRECTORY "/experiments";

std::int64_t count(const std::string& model) { return num_parameters(load_model(model, {})); }
std::int64_t count_config(const std::string& name) {
  return count((experiments / "models" / name / "config.json").string());
}

TEST(Models, BuiltInsHaveTheirPublishedParameterCounts) {
  EXPECT_EQ(count("gpt2"), 124'439'808);
  EXPECT_EQ(count("gpt2-medium"), 354'823'168);
  EXPECT_EQ(count("gpt2-large"), 774'030'080);
  EXPECT_EQ(count("gpt2-xl"), 1'557'611'200);
  EXPECT_EQ(count("resnet18"), 11'689'512);
  EXPECT_EQ(count("resnet34"), 21'797'672);
  EXPECT_EQ(count("resnet50"), 25'557'032);
  EXPECT_EQ(count("resnet101"), 44'549'160);
  EXPECT_EQ(count("resnet152"), 60'192'808);
  EXPECT_EQ(count("vgg16"), 138'357'544);
  // 784 x 1024 + 1024, twice 1024 x 1024 + 1024, 1024 x 10 + 10
  EXPECT_EQ(count("mlp"), 803'840 + 2 * 1'049'600 + 10'250);
}

TEST(Golden, G13_ParameterCountsFromConfig) {
  EXPECT_EQ(count_config("gpt2"), 124'439'808);
  EXPECT_EQ(count_config("tinyllama-1.1b"), 1'100'048'384);
  EXPECT_EQ(count_config("llama-2-7b"), 6'738'415'616);
  EXPECT_EQ(count_config("llama-3-8b"), 8'030'261'248);  // 8,835,567,616 would ignore grouped queries
  EXPECT_EQ(count_config("mistral-7b"), 7'241'732'096);
  EXPECT_EQ(count_config("qwen2-0.5b"), 494'032'768);
  EXPECT_EQ(count_config("qwen2-7b"), 7'615'616'512);
}

Flops matmul_flops(const Graph& graph) {
  Flops sum{};
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const OpCosts costs = costs_of(graph, OpId(i));
    if (row_of(graph.ops[i].kind).matmul_like) sum += costs.forward + costs.input_gradient + costs.weight_gradient;
  }
  return sum;
}

// 72 B s L h^2 (1 + s/(6h) + V/(12 L h)): per block and token 24 h^2 FLOPs in linear layers and 4 s h in attention,
// and 2 h V in the output layer; backward doubles what forward did.
TEST(Golden, G12_GptFlopsOfOneIteration) {
  EXPECT_DOUBLE_EQ(matmul_flops(load_model("gpt2", {.sequence_length = 1024})).value, 8.749449216e11);
  for (const std::int64_t b : {1, 3})
    for (const std::int64_t s : {1, 128}) {
      const double h = 1024, l = 24, v = 50257, t = static_cast<double>(s);
      const double expected = 72 * static_cast<double>(b) * t * l * h * h * (1 + t / (6 * h) + v / (12 * l * h));
      const Flops flops = matmul_flops(load_model("gpt2-medium", {.micro_batch = b, .sequence_length = s}));
      EXPECT_NEAR(flops.value / expected, 1, 1e-12) << b << ' ' << s;
    }
}

// 4.09 G multiply-adds for ResNet-50, 7.80 for ResNet-101, 15.47 for VGG-16 (torchvision's model table, "GFLOPS").
TEST(Models, VisionForwardFlopsMatchThePublishedFigures) {
  const auto forward = [](const char* name) {
    const Graph graph = load_model(name, {});
    double sum = 0;
    for (std::size_t i = 0; i < graph.ops.size(); ++i)
      if (row_of(graph.ops[i].kind).matmul_like) sum += costs_of(graph, OpId(i)).forward.value;
    return sum;
  };
  EXPECT_NEAR(forward("resnet18") / 2e9, 1.81, 0.01);
  EXPECT_NEAR(forward("resnet50") / 2e9, 4.09, 0.01);
  EXPECT_NEAR(forward("resnet101") / 2e9, 7.80, 0.01);
  EXPECT_NEAR(forward("vgg16") / 2e9, 15.47, 0.01);
}

TEST(Models, EveryBuiltInScalesWithTheMicroBatchAndDtype) {
  for (const ModelRow& row : model_table()) {
    SCOPED_TRACE(row.name);
    const Graph one = row.build({}), three = row.build({.micro_batch = 3, .dtype = DType::bf16});
    EXPECT_EQ(one.name, row.name);
    ASSERT_EQ(one.ops.size(), three.ops.size());
    EXPECT_EQ(num_parameters(one), num_parameters(three));
    EXPECT_DOUBLE_EQ(3 * matmul_flops(one).value, matmul_flops(three).value);
    EXPECT_EQ(one.tokens_per_sample > 0, row.name.starts_with("gpt2"));
    for (const Op& op : one.ops) EXPECT_FALSE(op.block.empty()) << op.name;
    EXPECT_EQ(one.ops.back().kind, OpKind::cross_entropy);
    EXPECT_EQ(three.tensors.back().dtype, DType::fp32);                      // the loss
    EXPECT_EQ(three.tensor(three.ops.back().inputs[0]).dtype, DType::bf16);  // the logits
  }
}

TEST(Models, Gpt2IsFineGrained) {
  const Graph graph = load_model("gpt2", {});
  std::map<std::string, int> ops_per_block;
  for (const Op& op : graph.ops) ++ops_per_block[op.block];
  EXPECT_EQ(ops_per_block.size(), 12U + 2U);
  // ln_1, c_attn, split, attention, c_proj, dropout, add, ln_2, c_fc, gelu, c_proj, dropout, add
  EXPECT_EQ(ops_per_block["0"], 13);
  EXPECT_EQ(ops_per_block["11"], 13);
  const auto tied = std::ranges::find(graph.parameters, "wte.weight", &Parameter::name);
  ASSERT_NE(tied, graph.parameters.end());
  ASSERT_EQ(tied->users.size(), 2U);
  EXPECT_EQ(graph.op(tied->users[0]).name, "wte");
  EXPECT_EQ(graph.op(tied->users[1]).name, "lm_head");
}

TEST(Models, ConfigAndBuiltInAreTheSameGpt2) {
  EXPECT_EQ(load_model((experiments / "models/gpt2").string(), {}), load_model("gpt2", {}));
}

TEST(Models, ResNetTakesSmallPictures) {
  const Graph graph = load_model("resnet18", {.micro_batch = 2, .image_size = 32});
  EXPECT_EQ(num_parameters(graph), 11'689'512);
  const auto pool = std::ranges::find(graph.ops, "avgpool", &Op::name);
  EXPECT_EQ(graph.tensor(pool->inputs[0]).shape, (Shape{2, 512, 1, 1}));  // 32, 16, 8, 8, 4, 2, 1
}

std::string refusal(const std::function<void()>& load) {
  try {
    load();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Models, UnknownNamesGetTheNearest) {
  EXPECT_THAT(refusal([] { load_model("gtp2", {}); }), HasSubstr("\"gtp2\" is not known; did you mean \"gpt2\""));
  EXPECT_THAT(refusal([] { load_model("resnet-50", {}); }), HasSubstr("\"resnet50\""));
  EXPECT_THAT(refusal([] { load_model("", {}); }), HasSubstr("is not known"));
  EXPECT_THAT(refusal([] { load_model("nowhere/config.json", {}); }), HasSubstr("nowhere/config.json"));
  EXPECT_THAT(refusal([] { load_model("nowhere.toml", {}); }), HasSubstr("nowhere.toml"));
}

TEST(Models, OptionsAModelCanNotTakeAreRefused) {
  const auto with = [](const char* model, const ModelOptions& options) {
    return refusal([&] { load_model(model, options); });
  };
  EXPECT_THAT(with("gpt2", {.sequence_length = 2048}),
              HasSubstr("gpt2: sequence_length: 2048 is beyond the model's maximum of 1024 tokens"));
  EXPECT_THAT(with("gpt2", {.sequence_length = -1}), HasSubstr("sequence_length: -1"));
  EXPECT_THAT(with("gpt2", {.image_size = 224}), HasSubstr("reads no pictures"));
  EXPECT_THAT(with("resnet50", {.sequence_length = 128}), HasSubstr("reads no sequences"));
  EXPECT_THAT(with("resnet50", {.image_size = 31}), HasSubstr("image_size: 31"));
  EXPECT_THAT(with("resnet50", {.image_size = -224}), HasSubstr("image_size: -224"));
  EXPECT_THAT(with("vgg16", {.image_size = 32}), HasSubstr("image_size: 32"));
  EXPECT_THAT(with("mlp", {.image_size = 32}), HasSubstr("28 x 28"));
  for (const ModelRow& row : model_table())
    for (const std::int64_t b : {std::int64_t{0}, std::int64_t{-8}, std::int64_t{1} << 41, INT64_MAX})
      EXPECT_THAT(refusal([&] { row.build({.micro_batch = b}); }), HasSubstr(std::string(row.name) + ": micro_batch"));
  EXPECT_THAT(with("gpt2", {.micro_batch = std::int64_t{1} << 39}), HasSubstr("more than 2^40 elements"));
}

/// A config.json in a folder of its own.
class Config : public testing::Test {
 protected:
  Config() : path_(std::filesystem::path(testing::TempDir()) / ("config-" + std::to_string(getpid()) + ".json")) {}
  ~Config() override { std::filesystem::remove(path_); }

  std::string load(const std::string& text, const ModelOptions& options = {}) {
    std::ofstream(path_, std::ios::binary) << text;
    const std::string result = refusal([&] { load_model(path_.string(), options); });
    EXPECT_THAT(result, testing::AnyOf("accepted", testing::StartsWith(path_.string())));
    return result;
  }

  /// `name`'s shipped config with one key changed.
  std::string load_with(const std::string& name, const std::string& key, const json& value,
                        const ModelOptions& options = {}) {
    json config = json::parse(std::ifstream(experiments / "models" / name / "config.json"));
    config[key] = value;
    return load(config.dump(1), options);
  }

  std::string load_without(const std::string& name, const std::string& key) {
    json config = json::parse(std::ifstream(experiments / "models" / name / "config.json"));
    config.erase(key);
    return load(config.dump(1));
  }

  std::filesystem::path path_;
};

const std::vector<std::string> gpt2_sizes = {"vocab_size", "n_positions", "n_embd", "n_layer", "n_head"};
const std::vector<std::string> llama_sizes = {"vocab_size",        "max_position_embeddings", "hidden_size",
                                              "num_hidden_layers", "num_attention_heads",     "intermediate_size"};

TEST_F(Config, WrongSizesAreRefused) {
  const std::vector<json> wrong = {0,    -12,       1.5,       "768", true, json::array({768}), json::object(),
                                   1e30, INT64_MAX, UINT64_MAX};
  for (const auto& [model, keys] :
       {std::pair("gpt2", gpt2_sizes), std::pair("llama-3-8b", llama_sizes),
        std::pair("llama-3-8b", std::vector<std::string>{"num_key_value_heads", "head_dim"})})
    for (const std::string& key : keys)
      for (const json& value : wrong) {
        const std::string message = load_with(model, key, value);
        EXPECT_THAT(message, HasSubstr(": " + key + ": ")) << value;
        EXPECT_THAT(message, HasSubstr("whole number from 1 to")) << value;
      }
}

TEST_F(Config, MissingAndNullSizesAreRefused) {
  for (const std::string& key : gpt2_sizes) {
    EXPECT_THAT(load_without("gpt2", key), HasSubstr(": " + key + ": is missing"));
    EXPECT_THAT(load_with("gpt2", key, nullptr), HasSubstr(": " + key + ": null is not"));
  }
  for (const std::string& key : llama_sizes)
    EXPECT_THAT(load_without("llama-2-7b", key), HasSubstr(": " + key + ": is missing"));
  EXPECT_THAT(load_without("gpt2", "model_type"), HasSubstr("model_type: is missing"));
  for (const char* key : {"architectures", "activation_function", "resid_pdrop", "layer_norm_epsilon"}) {
    EXPECT_EQ(load_without("gpt2", key), "accepted");
    EXPECT_EQ(load_with("gpt2", key, nullptr), "accepted");
  }
  EXPECT_EQ(load_with("gpt2", "n_inner", nullptr), "accepted");
}

TEST_F(Config, HeadsThatDoNotDivideAreRefused) {
  EXPECT_THAT(load_with("gpt2", "n_head", 7), HasSubstr("n_head: 7 doesn't divide n_embd, which is 768"));
  EXPECT_THAT(load_with("llama-2-7b", "num_attention_heads", 33),
              HasSubstr("num_attention_heads: 33 doesn't divide hidden_size, which is 4096"));
  EXPECT_THAT(load_with("llama-3-8b", "num_key_value_heads", 5),
              HasSubstr("num_key_value_heads: 5 doesn't divide num_attention_heads, which is 32"));
  EXPECT_THAT(load_with("llama-3-8b", "num_key_value_heads", 64), HasSubstr("num_key_value_heads: 64 doesn't divide"));
  EXPECT_THAT(load_with("llama-3-8b", "head_dim", 127), HasSubstr("head_dim: gives heads of 127 features"));
}

TEST_F(Config, ADifferentHeadSizeIsBuilt) {
  // q [32 x 64, 4096], k and v [8 x 64, 4096], o [4096, 32 x 64]: half of each of Llama-3-8B's.
  EXPECT_EQ(load_with("llama-3-8b", "head_dim", 64), "accepted");
  const std::int64_t half = 32 * (2 * 4096 * 2048 + 2 * 512 * 4096);
  EXPECT_EQ(count(path_.string()), 8'030'261'248 - half);
}

TEST_F(Config, BiasesAndTiesAreBuilt) {
  ASSERT_EQ(load_with("llama-2-7b", "attention_bias", true), "accepted");
  EXPECT_EQ(count(path_.string()), 6'738'415'616 + 32 * 4 * 4096);
  ASSERT_EQ(load_with("llama-2-7b", "mlp_bias", true), "accepted");
  EXPECT_EQ(count(path_.string()), 6'738'415'616 + 32 * (2 * 11008 + 4096));
  ASSERT_EQ(load_with("llama-2-7b", "tie_word_embeddings", true), "accepted");
  EXPECT_EQ(count(path_.string()), 6'738'415'616 - 32000 * 4096);
  ASSERT_EQ(load_with("gpt2", "tie_word_embeddings", false), "accepted");
  EXPECT_EQ(count(path_.string()), 124'439'808 + 50257 * 768);
  ASSERT_EQ(load_with("gpt2", "n_inner", 1000), "accepted");
  EXPECT_EQ(count(path_.string()), 124'439'808 - 12 * (3072 - 1000) * (2 * 768 + 1));
}

TEST_F(Config, WhatWouldBeAnotherNetworkIsRefused) {
  EXPECT_THAT(load_with("gpt2", "model_type", "gpt3"),
              HasSubstr("model_type: \"gpt3\" is not known; did you mean \"gpt2\""));
  EXPECT_THAT(load_with("gpt2", "model_type", "bert"), HasSubstr("model_type: \"bert\" is not known"));
  EXPECT_THAT(load_with("qwen2-7b", "model_type", "qwen2_moe"), HasSubstr("\"qwen2\""));
  EXPECT_THAT(load_with("gpt2", "model_type", 2), HasSubstr("model_type: 2 is not a string"));
  EXPECT_THAT(load_with("gpt2", "architectures", json::array({"GPT2DoubleHeadsModel"})), HasSubstr("GPT2LMHeadModel"));
  EXPECT_THAT(load_with("llama-2-7b", "architectures", json::array({"LlamaForSequenceClassification"})),
              HasSubstr("architectures: \"LlamaForSequenceClassification\" is not supported"));
  EXPECT_THAT(load_with("mistral-7b", "num_local_experts", 8),
              HasSubstr("num_local_experts: means a mixture of experts"));
  EXPECT_THAT(load_with("llama-3-8b", "quantization_config", {{"bits", 4}}), HasSubstr("quantised weights"));
  EXPECT_THAT(load_with("gpt2", "add_cross_attention", true), HasSubstr("add_cross_attention: true is not supported"));
  EXPECT_THAT(load_with("gpt2", "activation_function", "geru"),
              HasSubstr("activation_function: \"geru\" is not known"));
  EXPECT_THAT(load_with("llama-3-8b", "hidden_act", "relu6"), HasSubstr("\"relu\""));
  EXPECT_EQ(load_with("llama-3-8b", "quantization_config", nullptr), "accepted");
}

TEST_F(Config, RealsOutOfRangeAreRefused) {
  EXPECT_THAT(load_with("gpt2", "resid_pdrop", 1.0), HasSubstr("resid_pdrop: 1.0"));
  EXPECT_THAT(load_with("gpt2", "resid_pdrop", -0.1), HasSubstr("resid_pdrop: -0.1"));
  EXPECT_THAT(load_with("gpt2", "layer_norm_epsilon", "tiny"), HasSubstr("layer_norm_epsilon: \"tiny\""));
  EXPECT_THAT(load_with("llama-3-8b", "rope_theta", 0), HasSubstr("rope_theta: 0"));
  EXPECT_THAT(load_with("llama-3-8b", "rms_norm_eps", -1e-5), HasSubstr("rms_norm_eps: -0.00001"));
  EXPECT_THAT(load_with("llama-3-8b", "tie_word_embeddings", "no"), HasSubstr("tie_word_embeddings: \"no\""));
}

TEST_F(Config, WindowsShorterThanTheSequenceAreRefused) {
  EXPECT_EQ(load_with("mistral-7b", "sliding_window", 4096, {.sequence_length = 4096}), "accepted");
  EXPECT_THAT(load_with("mistral-7b", "sliding_window", 4096, {.sequence_length = 4097}),
              HasSubstr("sliding_window: 4096 is shorter than sequence_length, 4097"));
  EXPECT_EQ(load_with("mistral-7b", "sliding_window", nullptr, {.sequence_length = 8192}), "accepted");
  EXPECT_EQ(load_with("qwen2-7b", "sliding_window", 4, {.sequence_length = 8}), "accepted");  // not in use
}

TEST_F(Config, TheSequenceMustFitTheModel) {
  EXPECT_THAT(load_with("llama-2-7b", "vocab_size", 32000, {.sequence_length = 4097}),
              HasSubstr("sequence_length: 4097 is beyond the model's maximum of 4096"));
  EXPECT_EQ(load_with("gpt2", "n_positions", 16), "accepted");  // T is 16 then, not 1,024
}

TEST_F(Config, SizesThatNoMachineHoldsAreRefused) {
  EXPECT_THAT(load_with("gpt2", "n_embd", 12 << 24), HasSubstr("more than 2^40 elements"));
  EXPECT_THAT(load_with("gpt2", "n_layer", 1'000'000), HasSubstr("n_layer: 1000000"));
}

TEST_F(Config, FilesThatAreNoJsonAreRefused) {
  for (const std::string text : {"", " ", "{", "{\"model_type\": \"gpt2\",", "null", "[]", "\"gpt2\"", "3", "NaN",
                                 "{\"n_embd\": NaN}", "{'a': 1}", "# toml\na = 1"})
    EXPECT_NE(load(text), "accepted") << text;
  EXPECT_NE(load(std::string("\0\1\2\xff", 4)), "accepted");
  EXPECT_NE(load("{\"model_type\": \"\xff\xfe\"}"), "accepted");
  EXPECT_NE(load(std::string(100'000, '[')), "accepted");
}

}  // namespace
}  // namespace fusion
