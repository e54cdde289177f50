// The grid of a sweep: axes in, set-ups out.
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/toml_file.h"
#include "core/plan/run_config.h"
#include "core/report/version.h"
#include "sim/engines.h"
#include "sim/sweep.h"
#include "sim/sweep_row.h"

namespace fusion::sim {
namespace {

/// Loads the problem of a set-up, so that what is wrong with it is said before anything runs, and gives the text of the
/// files that it came from: they may be edited between two runs.
std::string sources_of(const RunConfig& config) {
  const Problem problem = load_problem(config);
  std::string text = read_text(problem.platform.file) + read_text(platforms_directory() / "gpus.toml");
  if (std::filesystem::is_regular_file(config.model)) text += read_text(config.model);
  return text;
}

/// Hash of all that a result follows from.
std::string id_of(const SetUp& of, const std::string& sources) {
  const std::string text = all_options(of) + std::string(version()) + sources;
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
  return digits.data();
}

void set(SetUp& of, const std::string& key, const std::string& value, const std::string& place = {}) {
  if (key == "engine") {
    of.engine = find_engine(value).name;
  } else if (key == "network") {
    of.network = value;
  } else {
    set_option(of.config, key, value, place);
  }
}

/// The list of one option in a sweep.toml.
std::vector<std::string> values_in(const TomlTable& table, const std::string& key, bool numbers) {
  if (!numbers) return table.strings(key);
  std::vector<std::string> values;
  for (const std::int64_t value : table.integers(key)) values.push_back(std::to_string(value));
  return values;
}

}  // namespace

std::vector<SetUp> set_ups(const RunConfig& base, const std::vector<Axis>& axes) {
  constexpr std::size_t most = 1'000'000;
  std::vector<SetUp> all(1);
  all.front().config = base;
  for (const Axis& axis : axes) {
    if (axis.values.empty()) throw InputError("", axis.key, "has no value");
    if (all.size() > most / axis.values.size())
      throw InputError("", axis.key, "makes more than " + std::to_string(most) + " set-ups");
    std::vector<SetUp> longer;
    for (const SetUp& each : all)
      for (const std::string& value : axis.values) {
        longer.push_back(each);
        set(longer.back(), axis.key, value, axis.place);
      }
    all = std::move(longer);
  }
  std::map<std::string, std::string> known;  // by the options that decide the problem
  for (SetUp& each : all) {
    if (each.config.model.empty()) throw InputError("", "model", "is missing; say model=gpt2, or --model");
    if (each.config.platform.empty()) throw InputError("", "platform", "is missing; say platform=lan4, or --platform");
    find_engine(each.engine).require_network(each.network);
    std::string& sources = known[problem_key(each.config)];
    if (sources.empty()) sources = sources_of(each.config);
    each.id = id_of(each, sources);
  }
  return all;
}

Axis parse_axis(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos)
    throw InputError("", "", in_quotes(text) + " is no axis; write key=value,value, like model=gpt2,resnet101");
  Axis axis{text.substr(0, equals), {}, {}};
  for (std::size_t begin = equals + 1, end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find(',', begin);
    axis.values.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
  }
  SetUp probe;
  for (const std::string& value : axis.values) set(probe, axis.key, value);
  return axis;
}

std::vector<Axis> load_axes(const std::filesystem::path& file) {
  const TomlTable table = load_toml(file);
  std::vector<Axis> axes;
  for (const std::string& key : table.keys()) {
    const auto option = std::ranges::find(run_options(), key, &RunOption::key);
    const bool known = option != run_options().end();
    if (!known && key != "engine" && key != "network") continue;  // reject_unknown names it
    const bool numbers = known && option->kind == RunOption::Kind::whole_number;
    Axis axis{key, values_in(table, key, numbers), table.place(key)};
    SetUp probe;
    try {
      for (const std::string& value : axis.values) set(probe, key, value);
    } catch (const InputError& fault) {
      throw table.error(key, std::string_view(fault.what()).substr(key.size() + 2));
    }
    axes.push_back(std::move(axis));
  }
  for (const RunOption& option : run_options()) table.has(option.key);  // known, for the error on those that aren't
  table.has("engine");
  table.has("network");
  table.reject_unknown();
  return axes;
}

}  // namespace fusion::sim
