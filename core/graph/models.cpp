#include "core/graph/models.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/base/error.h"
#include "core/graph/hugging_face.h"
#include "core/graph/models_text.h"
#include "core/graph/models_vision.h"

namespace fusion {
namespace {

Graph gpt2(const ModelOptions& options) { return build_gpt2("gpt2", {}, options, "gpt2"); }
Graph gpt2_medium(const ModelOptions& options) {
  return build_gpt2("gpt2-medium", {.features = 1024, .layers = 24, .heads = 16}, options, "gpt2-medium");
}
Graph gpt2_large(const ModelOptions& options) {
  return build_gpt2("gpt2-large", {.features = 1280, .layers = 36, .heads = 20}, options, "gpt2-large");
}
Graph gpt2_xl(const ModelOptions& options) {
  return build_gpt2("gpt2-xl", {.features = 1600, .layers = 48, .heads = 25}, options, "gpt2-xl");
}
Graph resnet18(const ModelOptions& options) { return build_resnet("resnet18", {2, 2, 2, 2}, false, options); }
Graph resnet34(const ModelOptions& options) { return build_resnet("resnet34", {3, 4, 6, 3}, false, options); }
Graph resnet50(const ModelOptions& options) { return build_resnet("resnet50", {3, 4, 6, 3}, true, options); }
Graph resnet101(const ModelOptions& options) { return build_resnet("resnet101", {3, 4, 23, 3}, true, options); }
Graph resnet152(const ModelOptions& options) { return build_resnet("resnet152", {3, 8, 36, 3}, true, options); }

constexpr std::array table = {
    ModelRow{"gpt2", "GPT-2, 124 M parameters, 12 blocks", gpt2},
    ModelRow{"gpt2-medium", "GPT-2, 355 M parameters, 24 blocks", gpt2_medium},
    ModelRow{"gpt2-large", "GPT-2, 774 M parameters, 36 blocks", gpt2_large},
    ModelRow{"gpt2-xl", "GPT-2, 1.56 B parameters, 48 blocks", gpt2_xl},
    ModelRow{"resnet18", "ResNet-18, 11.7 M parameters", resnet18},
    ModelRow{"resnet34", "ResNet-34, 21.8 M parameters", resnet34},
    ModelRow{"resnet50", "ResNet-50, 25.6 M parameters", resnet50},
    ModelRow{"resnet101", "ResNet-101, 44.5 M parameters", resnet101},
    ModelRow{"resnet152", "ResNet-152, 60.2 M parameters", resnet152},
    ModelRow{"vgg16", "VGG-16, 138 M parameters", build_vgg16},
    ModelRow{"mlp", "perceptron for 28 x 28 pictures, 2.9 M parameters", build_mlp},
};

}  // namespace

std::span<const ModelRow> model_table() { return table; }

Graph load_model(const std::string& name_or_path, const ModelOptions& options) {
  const auto row = std::ranges::find(table, name_or_path, &ModelRow::name);
  if (row != table.end()) return row->build(options);
  const std::filesystem::path path(name_or_path);
  if (path.extension() == ".json") return load_hugging_face(path, options);
  if (path.extension() == ".toml") return load_graph(path, options);
  std::error_code ignored;  // what can't be looked at is no directory
  if (std::filesystem::is_directory(path, ignored)) return load_hugging_face(path / "config.json", options);

  std::vector<std::string_view> names;
  for (const ModelRow& each : table) names.push_back(each.name);
  throw InputError("", "model",
                   unknown_name(name_or_path, names) + "; or give a path to config.json or to a graph (.toml)");
}

}  // namespace fusion
