#include "core/plan/run_config.h"

#include <array>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/names.h"
#include "core/base/toml_file.h"
#include "core/plan/compression_pair.h"
#include "core/program/collective.h"

namespace fusion {
namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();  // what TOML and JSON numbers both hold
constexpr std::int64_t max_micro_batch = 1'000'000;
constexpr std::int64_t max_length = 1 << 24;  // of a sequence or a picture's side

std::int64_t whole_number(const std::string& text, std::int64_t low, std::int64_t high) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || value < low || value > high)
    throw std::invalid_argument("\"" + text + "\" is not a whole number from " + std::to_string(low) + " to " +
                                (high == largest ? "2^63 - 1" : std::to_string(high)));
  return value;
}

std::string not_empty(const std::string& text, std::string_view example) {
  if (text.empty()) throw std::invalid_argument("is empty; give a name or a path, like " + std::string(example));
  return text;
}

bool boolean(const std::string& text) {
  if (text != "true" && text != "false") throw std::invalid_argument("\"" + text + "\" is not true or false");
  return text == "true";
}

using Kind = RunOption::Kind;
using Config = RunConfig;
using Text = const std::string&;

constexpr std::array options = {
    RunOption{"model", "built-in name, Hugging Face config.json, or graph file", Kind::text,
              [](Config& c, Text v) { c.model = not_empty(v, "gpt2"); }, [](const Config& c) { return c.model; }},
    RunOption{"platform", "name of a shipped platform, or a file", Kind::text,
              [](Config& c, Text v) { c.platform = not_empty(v, "testbed-1"); },
              [](const Config& c) { return c.platform; }},
    RunOption{"policy", "placement policy", Kind::text,
              [](Config& c, Text v) { c.policy = row_named(policy_table(), v).name; },
              [](const Config& c) { return c.policy; }},
    RunOption{"order", "pipeline order: gpipe, 1f1b, interleaved:2, … (fusion-sim orders), or a table FILE.csv",
              Kind::text, [](Config& c, Text v) { c.order = parse_order(v).name; },
              [](const Config& c) { return c.order; }},
    RunOption{"compress",
              "compression of cut edges: none, fp16, adatopk:100, …; activations/gradients: int8/adatopk:100",
              Kind::text, [](Config& c, Text v) { c.compress = to_string(parse_compression_pair(v)); },
              [](const Config& c) { return c.compress; }},
    RunOption{"micro-batches", "micro-batches per iteration", Kind::whole_number,
              [](Config& c, Text v) { c.micro_batches = static_cast<int>(whole_number(v, 1, max_micro_batches)); },
              [](const Config& c) { return std::to_string(c.micro_batches); }},
    RunOption{"micro-batch", "samples per micro-batch", Kind::whole_number,
              [](Config& c, Text v) { c.model_options.micro_batch = whole_number(v, 1, max_micro_batch); },
              [](const Config& c) { return std::to_string(c.model_options.micro_batch); }},
    RunOption{"replicas", "copies of the network; each trains on its share of the micro-batches", Kind::whole_number,
              [](Config& c, Text v) { c.replicas = static_cast<int>(whole_number(v, 1, max_micro_batches)); },
              [](const Config& c) { return std::to_string(c.replicas); }},
    RunOption{"collective", "how gradients are added up: ring, …, or auto, the quickest by its formula", Kind::text,
              [](Config& c, Text v) { c.collective = collective_named(v); },
              [](const Config& c) { return c.collective; }},
    RunOption{"seq", "tokens per sample; 0: the model's own, 1024 at most", Kind::whole_number,
              [](Config& c, Text v) { c.model_options.sequence_length = whole_number(v, 0, max_length); },
              [](const Config& c) { return std::to_string(c.model_options.sequence_length); }},
    RunOption{"image-size", "height and width of a picture; 0: the model's own", Kind::whole_number,
              [](Config& c, Text v) { c.model_options.image_size = whole_number(v, 0, max_length); },
              [](const Config& c) { return std::to_string(c.model_options.image_size); }},
    RunOption{"devices", "use the first N devices only; 0: all", Kind::whole_number,
              [](Config& c, Text v) { c.devices = static_cast<std::size_t>(whole_number(v, 0, largest)); },
              [](const Config& c) { return std::to_string(c.devices); }},
    RunOption{"bandwidth",
              "give every link between hosts this bandwidth, e.g. \"100 Mbps\"; default: as the platform says",
              Kind::text,
              [](Config& c, Text v) {
                if (!v.empty()) parse_bandwidth(v);
                c.bandwidth = v;
              },
              [](const Config& c) { return c.bandwidth; }},
    RunOption{"optimizer", "sgd, momentum or adam", Kind::text,
              [](Config& c, Text v) { c.training.optimizer = parse_optimizer(v); },
              [](const Config& c) { return std::string(name_of(c.training.optimizer)); }},
    RunOption{"precision", "fp32, or mixed with fp16 or bf16", Kind::text,
              [](Config& c, Text v) { c.training.precision = parse_precision(v); },
              [](const Config& c) { return std::string(name_of(c.training.precision)); }},
    RunOption{"recompute", "keep a stage's inputs only and run its forward again before its backward", Kind::flag,
              [](Config& c, Text v) { c.training.recompute = boolean(v); },
              [](const Config& c) { return std::string(c.training.recompute ? "true" : "false"); }},
    RunOption{"seed", "of every random draw", Kind::whole_number,
              [](Config& c, Text v) { c.seed = static_cast<std::uint64_t>(whole_number(v, 0, largest)); },
              [](const Config& c) { return std::to_string(c.seed); }},
};

std::string value_in(const TomlTable& table, const RunOption& option) {
  switch (option.kind) {
    case Kind::text:
      return table.string(option.key);
    case Kind::whole_number:
      return std::to_string(table.integer(option.key));
    case Kind::flag:
      return table.boolean(option.key) ? "true" : "false";
  }
  check(false, "an option without a kind");
  return {};
}

void put(RunConfig& config, const RunOption& option, const std::string& value, const std::string& place) {
  option.set(config, value);
  if (option.key == "model") config.model_place = place;
  if (option.key == "platform") config.platform_place = place;
}

}  // namespace

std::span<const RunOption> run_options() { return options; }

void set_option(RunConfig& config, std::string_view key, const std::string& value, const std::string& place) {
  std::vector<std::string_view> keys;
  for (const RunOption& option : options) {
    keys.push_back(option.key);
    if (option.key != key) continue;
    try {
      return put(config, option, value, place);
    } catch (const std::invalid_argument& fault) {
      throw InputError("", key, fault.what());
    }
  }
  throw InputError("", key, unknown_name(key, keys));
}

void load_run_config(const std::filesystem::path& file, RunConfig& config) {
  const TomlTable table = load_toml(file);
  for (const RunOption& option : options) {
    if (!table.has(option.key)) continue;
    const std::string value = value_in(table, option);
    try {
      put(config, option, value, table.place(option.key));
    } catch (const std::invalid_argument& fault) {
      throw table.error(option.key, fault.what());
    }
  }
  table.reject_unknown();
}

std::string problem_key(const ProblemOptions& options) {
  RunConfig config;
  static_cast<ProblemOptions&>(config) = options;
  return write_run_config(config);
}

std::string write_run_config(const RunConfig& config) {
  std::string text;
  for (const RunOption& option : options) {
    const std::string value = option.get(config);
    // A JSON string is a TOML string.
    text += std::string(option.key) + " = " + (option.kind == Kind::text ? nlohmann::json(value).dump() : value) + "\n";
  }
  return text;
}

}  // namespace fusion
