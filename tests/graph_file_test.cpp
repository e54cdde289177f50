// The graph file: what is written loads again as the same graph, and what is wrong is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/graph/builder.h"
#include "core/graph/models.h"

namespace fusion {
namespace {

using testing::HasSubstr;

const std::string unet = FUSION_SOURCE_DIRECTORY "/experiments/unet.toml";

class GraphFile : public testing::Test {
 protected:
  GraphFile() : path_(std::filesystem::path(testing::TempDir()) / ("graph-" + std::to_string(getpid()) + ".toml")) {}
  ~GraphFile() override { std::filesystem::remove(path_); }

  Graph load(const std::string& text, const ModelOptions& options = {}) {
    std::ofstream(path_, std::ios::binary) << text;
    return load_model(path_.string(), options);
  }

  std::string refusal(const std::string& text, const ModelOptions& options = {}) {
    try {
      load(text, options);
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), testing::StartsWith(path_.string()));
      return error.what();
    }
    return "accepted";
  }

  std::filesystem::path path_;
};

TEST_F(GraphFile, WriteAndLoadAreInverseForEveryBuiltIn) {
  for (const ModelRow& row : model_table())
    for (const DType dtype : {DType::fp32, DType::bf16}) {
      SCOPED_TRACE(row.name);
      const Graph graph = row.build({.micro_batch = 2, .dtype = dtype});
      const ModelOptions again{.micro_batch = 2, .dtype = dtype};
      EXPECT_EQ(load(write_graph(graph), again), graph);
    }
}

TEST_F(GraphFile, WriteAndLoadAreInverseForTheFamilies) {
  for (const char* name : {"tinyllama-1.1b", "qwen2-0.5b"}) {
    const Graph graph =
        load_model(FUSION_SOURCE_DIRECTORY "/experiments/models/" + std::string(name), {.sequence_length = 64});
    EXPECT_EQ(load(write_graph(graph)), graph) << name;
  }
}

// B and T are written as letters: the file of one micro-batch serves another.
TEST_F(GraphFile, AWrittenFileServesOtherMicroBatchesAndLengths) {
  const std::string text = write_graph(load_model("gpt2", {.micro_batch = 1, .sequence_length = 128}));
  const ModelOptions other{.micro_batch = 4, .sequence_length = 512};
  EXPECT_EQ(load(text, other), load_model("gpt2", other));
}

TEST_F(GraphFile, NamesOfAnyLettersSurvive) {
  GraphBuilder net("a \"quoted\" \\ name\n");
  net.block("tab\there");
  net.linear("é \x7f \x01", net.input("x", {1, 4}), 4);
  const Graph graph = std::move(net).finish();
  EXPECT_EQ(load(write_graph(graph)), graph);
}

TEST_F(GraphFile, UnetBranchesAndTrains) {
  const Graph graph = load_model(unet, {.micro_batch = 2});
  EXPECT_EQ(graph.name, "unet");
  // 3 x 3 convolutions and their norms: 3-32, 32-64, 64-128, 192-64, 96-32, then 1 x 1 to 21 classes with bias.
  const std::int64_t convolutions = 9 * (3 * 32 + 32 * 64 + 64 * 128 + 192 * 64 + 96 * 32) + 32 * 21 + 21;
  EXPECT_EQ(num_parameters(graph), convolutions + 2 * (32 + 64 + 128 + 64 + 32));
  std::size_t branches = 0;
  for (const Tensor& tensor : graph.tensors) branches += tensor.consumers.size() > 1;
  EXPECT_EQ(branches, 2U);  // two skips
  EXPECT_EQ(load(write_graph(graph), {.micro_batch = 2}), graph);
}

TEST_F(GraphFile, ImageSizeMayBeChosen) {
  const auto image = [](const ModelOptions& options) { return load_model(unet, options).tensors[0].shape; };
  EXPECT_EQ(image({}), (Shape{1, 3, 64, 64}));
  EXPECT_EQ(image({.micro_batch = 2, .image_size = 128}), (Shape{2, 3, 128, 128}));
  // 66 halves to 33, then 16; twice 16 is not 33.
  EXPECT_THROW(image({.image_size = 66}), InputError);
  EXPECT_THROW(image({.image_size = -64}), InputError);
  EXPECT_THROW(image({.sequence_length = 64}), InputError);
}

const std::string input = "[[op]]\nname = \"x\"\nkind = \"input\"\nshape = \"[B, 4]\"\n";  // lines 1 to 4

std::string linear(const std::string& name, const std::string& inputs, const std::string& more = "") {
  return "[[op]]\nname = \"" + name + "\"\nkind = \"linear\"\ninputs = [" + inputs + "]\nout_features = 4\n" + more;
}

TEST_F(GraphFile, MistakesAreNamed) {
  const std::vector<std::pair<std::string, const char*>> mistakes = {
      {"", ""},
      {"name = \"empty\"\n", "the graph is empty"},
      {std::string("\x7f"
                   "ELF\0\1",
                   6),
       ""},
      {"[[op]\n", ":1"},
      {"nme = \"a\"\n" + input + linear("a", "\"x\""), "did you mean \"name\""},
      {input + "shap = 3\n" + linear("a", "\"x\""), "\"shape\""},
      {input + linear("a", "\"x\"", "bia = true\n"), "\"bia\" is not known; did you mean \"bias\""},
      {input + linear("a", "\"x\"", "bias = 1\n"), "bias"},
      {input + linear("a", "\"y\""), ":8: op.inputs: tensor \"y\" is not known; valid: \"x\""},
      {input + linear("a", "\"x.0\""), "tensor \"x.0\" is not known"},
      {input + linear("a", ""), "has 0 inputs, 1 is wanted"},
      {input + linear("a", "\"x\", \"x\""), "has 2 inputs, 1 is wanted"},
      {input + linear("x", "\"x\""), "an op named \"x\" exists already"},
      {input + linear("", "\"x\""), "an op needs a name"},
      {input + linear("a", "\"x\"") + linear("b", "\"x\"") + linear("c", "\"a\""), "nobody reads tensor \"b\""},
      {input + linear("a", "\"b\"") + linear("b", "\"x\""),
       "\"b\" is made by an op that stands below; move \"b\" above \"a\""},
      {input + linear("a", "\"c\"") + linear("b", "\"a\"") + linear("c", "\"b\""), "a cycle: a <- c <- b <- a"},
      {input + linear("a", "\"a\""), "a cycle: a <- a"},
      {input + linear("a", "\"x\"", "tied = { weight = \"b.weight\" }\n"),
       "tied to parameter \"b.weight\" is not known"},
      {input + linear("a", "\"x\"", "tied = { wieght = \"b.weight\" }\n"), "\"wieght\" is not known"},
      {input + linear("a", "\"x\"", "tied = \"b.weight\"\n"), "tied"},
      {input + "[[op]]\nname = \"a\"\nkind = \"lniear\"\n", "did you mean \"linear\""},
      {input + "[[op]]\nkind = \"relu\"\ninputs = [\"x\"]\n", "name"},
      {input + "[[op]]\nname = \"a\"\ninputs = [\"x\"]\n", "kind"},
      {input + "[[op]]\nname = \"a\"\nkind = \"relu\"\n", "inputs"},
      {input + "[[op]]\nname = \"a\"\nkind = \"relu\"\ninputs = \"x\"\n", "inputs"},
      {input + "[[op]]\nname = \"a\"\nkind = \"linear\"\ninputs = [\"x\"]\n", "out_features"},
      {input + "[[op]]\nname = \"a\"\nkind = \"linear\"\ninputs = [\"x\"]\nout_features = 4.5\n", "out_features"},
      {input + "[[op]]\nname = \"a\"\nkind = \"linear\"\ninputs = [\"x\"]\nout_features = 0\n",
       "[linear] out_features is 0"},
      {input + "[[op]]\nname = \"a\"\nkind = \"dropout\"\ninputs = [\"x\"]\np = nan\n", "p"},
      {"[[op]]\nname = \"x\"\nkind = \"input\"\nshape = \"[B, T]\"\n",
       "T stands for nothing; give the file a sequence_length"},
      {"[[op]]\nname = \"x\"\nkind = \"input\"\nshape = \"[B, S]\"\n", "S stands for nothing"},
      {"[[op]]\nname = \"x\"\nkind = \"input\"\nshape = \"[B, Q]\"\n", "\"Q\" is no dimension"},
      {"[[op]]\nname = \"x\"\nkind = \"input\"\nshape = \"[B,, 4]\"\n", "\"\" is no dimension"},
      {"[[op]]\nname = \"x\"\nkind = \"input\"\nshape = \"B, 4\"\n", ":4: op.shape: \"B, 4\" is no list"},
      {"[[op]]\nname = \"x\"\nkind = \"input\"\nshape = \"[]\"\n", "is no dimension"},
      {"[[op]]\nname = \"x\"\nkind = \"input\"\nshape = \"[B, 99999999999999999999]\"\n", "is no dimension"},
      {"[[op]]\nname = \"x\"\nkind = \"input\"\nshape = \"[B, 9223372036854775807]\"\n", "beyond 2^40"},
      {"[[op]]\nname = \"x\"\nkind = \"input\"\nshape = \"[B, -4]\"\n", "a dimension below 1"},
      {"[[op]]\nname = \"x\"\nkind = \"input\"\nshape = \"[7, 4]\"\n", "must be the micro-batch, 1"},
      {"[[op]]\nname = \"x\"\nkind = \"input\"\nshape = [1, 4]\n", "shape"},
      {"sequence_length = 0\n" + input + linear("a", "\"x\""), "sequence_length"},
      {"image_size = -3\n" + input + linear("a", "\"x\""), "image_size"},
      {"op = 3\n", "op"},
      {input, "nothing to train"},
  };
  for (const auto& [text, message] : mistakes) EXPECT_THAT(refusal(text), HasSubstr(message)) << text;
  EXPECT_EQ(refusal(input + linear("a", "\"x\"")), "accepted");
}

TEST_F(GraphFile, OptionsThatTheFileDoesNotUseAreRefused) {
  EXPECT_THAT(refusal(input + linear("a", "\"x\""), {.sequence_length = 8}), HasSubstr("no sequence_length"));
  EXPECT_THAT(refusal(input + linear("a", "\"x\""), {.image_size = 8}), HasSubstr("no image_size"));
  EXPECT_THAT(refusal(input + linear("a", "\"x\""), {.micro_batch = 0}), HasSubstr("micro_batch"));
}

// A chain written upside down: the first op reads the second, and so on; as deep as files get.
TEST_F(GraphFile, LongCyclesAndChainsAreFollowed) {
  constexpr int length = 20'000;
  std::string text = input;
  for (int i = 0; i < length; ++i)
    text += linear("a" + std::to_string(i), "\"a" + std::to_string((i + 1) % length) + "\"");
  EXPECT_THAT(refusal(text), HasSubstr("a7 <- a8 <- … <- a0 (20000 ops)"));
}

// Cutting the file anywhere, or flipping a byte of it, gives a graph or a message, never anything else.
TEST_F(GraphFile, DamagedFilesNeverCrash) {
  const std::string text = read_text(unet);
  for (std::size_t i = 0; i < text.size(); i += 37) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x15);
    for (const std::string& each : {text.substr(0, i), damaged}) try {
        load(each);
      } catch (const InputError&) {
      }
  }
}

}  // namespace
}  // namespace fusion
