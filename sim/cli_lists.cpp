// fusion-sim models | platforms | gpus | policies | orders | codecs | collectives: what there is, one line each.
#include "core/graph/models.h"
#include "core/plan/compression.h"
#include "core/plan/policies.h"
#include "core/program/collective.h"
#include "core/program/order_file.h"
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
  std::vector<Entry> entries = entries_of(collective_table());
  entries.push_back({std::string(auto_collective), "for each group the one of these that its formula finds quickest"});
  return entries;
}

std::vector<Entry> orders() {
  std::vector<Entry> entries;
  for (const OrderRow& row : order_table()) {
    const bool executed = row.chunks == 1 && !row.splits_backward;
    entries.push_back({std::string(row.name) + (row.takes_chunks ? ":C" : ""),
                       std::string(row.help) + (executed ? "" : "; simulated only")});
  }
  entries.push_back({"FILE.csv", "a table of your own, one line per device; --csv writes the others' as examples"});
  return entries;
}

/// One order, written out.
struct OrderFlags {
  std::string order;
  int devices = 4, micro_batches = 8;
};

void print_csv(const OrderFlags& flags) {
  const Order order = find_order(flags.order);
  const OrderTable table = order.table ? *order.table : tabulate(order, flags.devices, flags.micro_batches);
  std::fputs(write_order(table).c_str(), stdout);
}

std::shared_ptr<OrderFlags> add_order_flags(CLI::App& command) {
  const auto flags = std::make_shared<OrderFlags>();
  CLI::Option* csv =
      command.add_option("--csv", flags->order, "write this order as a table instead: what --order reads")
          ->type_name("ORDER");
  command.add_option("-p,--devices", flags->devices, "devices of that table")
      ->check(CLI::Range(1, 4096))
      ->needs(csv)
      ->capture_default_str();
  command.add_option("-m,--micro-batches", flags->micro_batches, "micro-batches of that table")
      ->check(CLI::Range(1, max_micro_batches))
      ->needs(csv)
      ->capture_default_str();
  command.footer(
      "A cell is stage, phase (F forward, B backward, I input gradient, W weight gradient), micro-batch; C is the\n"
      "number of stages per device.\n"
      "Examples:\n"
      "  fusion-sim orders --csv interleaved:2 -p 4 -m 8 > mine.csv\n"
      "  fusion-sim simulate --model gpt2 --platform lan4 --policy equal-compute --order mine.csv");
  return flags;
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
    {"orders", "pipeline orders, and any of them as a table", orders},
    {"codecs", "what --compress takes", codecs},
    {"collectives", "what --collective takes: how gradients of replicas and tied parameters are added up", collectives},
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
    const auto table = list.entries == orders ? add_order_flags(*command) : nullptr;
    command->callback(
        [output, table, &list] { table && !table->order.empty() ? print_csv(*table) : show(list.entries(), *output); });
  }
}

}  // namespace fusion::sim
