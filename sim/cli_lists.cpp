// fusion-sim models | platforms | gpus | policies | orders | codecs | collectives: what there is, one line each.
#include "core/graph/models.h"
#include "core/plan/compression.h"
#include "core/plan/policies.h"
#include "core/program/order.h"
#include "sim/cli.h"

namespace fusion::sim {
namespace {

struct Entry {
  std::string name, help;
};

template <class Rows>
std::vector<Entry> entries_of(const Rows& rows) {
  std::vector<Entry> entries;
  for (const auto& row : rows) entries.push_back({std::string(row.name), std::string(row.help)});
  return entries;
}

std::vector<Entry> models() {
  std::vector<Entry> entries = entries_of(model_table());
  entries.push_back({"PATH.json", "a Hugging Face config.json of the GPT-2 or Llama family (Llama, Mistral, Qwen2)"});
  entries.push_back({"PATH.toml", "a graph file of your own; experiments/unet.toml shows how"});
  return entries;
}

std::vector<Entry> platforms() {
  std::vector<Entry> entries;
  for (const PlatformRow& row : list_platforms())
    entries.push_back({row.name, std::to_string(row.num_devices) + " devices: " + row.description});
  return entries;
}

std::vector<Entry> gpus() {
  std::vector<Entry> entries;
  for (const GpuType& gpu : gpu_catalogue())
    entries.push_back({gpu.name, format(gpu.memory) + ", fp32 " + format(gpu.peak_fp32) + ", bf16 " +
                                     format(gpu.peak_bf16) + " (" + gpu.source + ")"});
  return entries;
}

/// What --compress takes, ratio and all.
std::vector<Entry> codecs() {
  std::vector<Entry> entries;
  for (const CompressionRow& row : compression_table())
    entries.push_back({std::string(row.name) + (row.takes_ratio ? ":R" : ""), std::string(row.help)});
  return entries;
}

std::vector<Entry> collectives() {
  return {{"direct", "every holder of tied parameters sends its gradient to every other; sums in stage order"}};
}

struct List {
  const char* name;
  const char* help;
  std::vector<Entry> (*entries)();
};

constexpr List lists[] = {
    {"models", "built-in models, and the files that --model takes", models},
    {"platforms", "platforms that ship with FusionLLM", platforms},
    {"gpus", "the GPU catalogue: memory, its bandwidth, peak speed, source", gpus},
    {"policies", "placement policies", [] { return entries_of(policy_table()); }},
    {"orders", "pipeline orders", [] { return entries_of(order_table()); }},
    {"codecs", "what --compress takes", codecs},
    {"collectives", "how parameter gradients are exchanged", collectives},
};

void show(const std::vector<Entry>& entries, const Output& output) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  Table table({{"name"}, {"what it is"}});
  for (const Entry& entry : entries) {
    json.push_back({{"name", entry.name}, {"help", entry.help}});
    table.add({entry.name, entry.help});
  }
  output.json ? print(json) : print(table);
}

}  // namespace

void declare_lists(CLI::App& app) {
  for (const List& list : lists) {
    CLI::App* command = app.add_subcommand(list.name, list.help);
    const auto output = std::make_shared<Output>();
    add_output_flags(*command, *output);
    command->callback([output, &list] { show(list.entries(), *output); });
  }
}

}  // namespace fusion::sim
