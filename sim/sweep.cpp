#include "sim/sweep.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/toml_file.h"
#include "core/plan/run_config.h"
#include "core/program/lower.h"
#include "core/report/version.h"
#include "sim/engines.h"
#include "sim/workers.h"

namespace fusion::sim {
namespace {

using Json = nlohmann::ordered_json;

/// A file that `simulate --config` takes.
std::string all_options(const SetUp& of) {
  return "# simulate it with --engine " + of.engine + " --network " + of.network + "\n" + write_run_config(of.config);
}

/// The options that decide model and platform.
RunConfig problem_part(const RunConfig& config) {
  RunConfig part;
  part.model = config.model;
  part.platform = config.platform;
  part.model_options = config.model_options;
  part.devices = config.devices;
  part.bandwidth = config.bandwidth;
  part.training = config.training;
  return part;
}

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

void set(SetUp& of, const std::string& key, const std::string& value) {
  if (key == "engine") {
    of.engine = find_engine(value).name;
  } else if (key == "network") {
    of.network = value;
  } else {
    set_option(of.config, key, value);
  }
}

Json options_of(const SetUp& of) {
  Json json;
  for (const RunOption& option : run_options()) json[std::string(option.key)] = option.get(of.config);
  json["engine"] = of.engine;
  json["network"] = of.network;
  return json;
}

/// Set-ups that follow one another mostly share their model and platform.
const Problem& problem_of(const RunConfig& config) {
  static std::string held;  // a worker is a process of its own
  static std::optional<Problem> problem;
  const std::string key = write_run_config(problem_part(config));
  if (!problem || held != key) {
    problem = load_problem(config);
    held = key;
  }
  return *problem;
}

Json figures_of(const SetUp& of) {
  const Problem& problem = problem_of(of.config);
  const Schedule schedule = make_schedule(of.config, problem);
  const Program program = lower(schedule, problem.graph, problem.costs, problem.platform);
  validate(program, problem.platform, Sends::buffered, of.config.policy);
  const Report report = find_engine(of.engine).simulate_again(program, problem.platform, of.network);
  double bubble = 0;
  Bytes wire{}, dense{}, peak{};
  for (const DeviceReport& device : report.devices) {
    bubble += device.bubble_fraction / static_cast<double>(report.devices.size());
    peak = std::max(peak, device.peak_memory);
  }
  for (const LinkReport& link : report.links) {
    wire += link.bytes;
    dense += link.dense_bytes;
  }
  return {{"iteration_s", report.iteration.value},
          {"predicted_iteration_s", report.info.predicted_iteration.value},
          {"samples_per_s", samples_per_second(report)},
          {"tokens_per_s", tokens_per_second(report)},
          {"devices_used", report.devices.size()},
          {"devices_available", report.info.devices_available},
          {"mean_bubble_fraction", bubble},
          {"wire_bytes", wire.value},
          {"dense_bytes", dense.value},
          {"peak_memory_bytes", peak.value}};
}

Json failure(const std::string& kind, const std::string& reason) { return {{"failed", kind}, {"reason", reason}}; }

std::string line_of(const SetUp& of, const Json& outcome) {
  Json json = {{"id", of.id}};
  json.update(options_of(of));
  json.update(outcome);
  return json.dump();
}

constexpr std::array figures = {"iteration_s",  "predicted_iteration_s", "samples_per_s",        "tokens_per_s",
                                "devices_used", "devices_available",     "mean_bubble_fraction", "wire_bytes",
                                "dense_bytes",  "peak_memory_bytes"};
constexpr std::string_view crashed = "crash";

/// Whether a line says how a set-up ended. A worker that died says nothing: it may have been killed for want of memory,
/// so its set-up is tried again.
bool is_finished(const Json& json) {
  if (!json.is_object() || !json.contains("id") || !json["id"].is_string()) return false;
  for (const auto& [key, value] : json.items())
    if (!value.is_string() && !value.is_number()) return false;
  if (json.contains("failed")) return json["failed"].is_string() && json["failed"] != crashed;
  return std::ranges::all_of(figures, [&](const char* key) { return json.contains(key) && json[key].is_number(); });
}

/// The lines that a journal holds. What a kill has torn off is no line.
std::map<std::string, std::string> finished(const std::filesystem::path& journal) {
  std::map<std::string, std::string> lines;
  std::ifstream file(journal);
  for (std::string line; std::getline(file, line);) {
    const Json json = Json::parse(line, nullptr, false);
    if (is_finished(json)) lines[json["id"]] = line;
  }
  return lines;
}

std::string csv_cell(const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string csv_of(const std::vector<std::string>& lines) {
  std::vector<std::string> columns;
  std::vector<Json> rows;
  for (const std::string& line : lines) {
    rows.push_back(Json::parse(line));
    for (const auto& [key, value] : rows.back().items())
      if (std::ranges::find(columns, key) == columns.end()) columns.push_back(key);
  }
  std::string text;
  for (const std::string& column : columns) text += (text.empty() ? "" : ",") + column;
  text += "\n";
  for (const Json& row : rows) {
    for (std::size_t c = 0; c < columns.size(); ++c)
      text += (c == 0 ? "" : ",") + (row.contains(columns[c]) ? csv_cell(row[columns[c]]) : "");
    text += "\n";
  }
  return text;
}

void make_directory(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw InputError(directory.string(), "", "can't be made: " + error.message());
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
        set(longer.back(), axis.key, value);
      }
    all = std::move(longer);
  }
  std::map<std::string, std::string> known;  // by the options that decide the problem
  for (SetUp& each : all) {
    if (each.config.model.empty()) throw InputError("", "model", "is missing; say model=gpt2, or --model");
    if (each.config.platform.empty()) throw InputError("", "platform", "is missing; say platform=lan4, or --platform");
    find_engine(each.engine).require_network(each.network);
    std::string& sources = known[write_run_config(problem_part(each.config))];
    if (sources.empty()) sources = sources_of(each.config);
    each.id = id_of(each, sources);
  }
  return all;
}

Axis parse_axis(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos)
    throw InputError("", "", in_quotes(text) + " is no axis; write key=value,value, like model=gpt2,resnet101");
  Axis axis{text.substr(0, equals), {}};
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
    Axis axis{key, values_in(table, key, numbers)};
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

std::string run_set_up(const SetUp& of) {
  try {
    return line_of(of, figures_of(of));
  } catch (const Infeasible& reason) {
    return line_of(of, failure("infeasible", reason.what()));
  } catch (const InputError& reason) {
    return line_of(of, failure("bad input", reason.what()));
  } catch (const RuntimeFault& reason) {
    return line_of(of, failure("runtime fault", reason.what()));
  }
}

std::vector<std::string> sweep(const std::vector<SetUp>& all, const std::filesystem::path& directory, int num_workers,
                               const std::function<void(const SetUp&)>& ended) {
  make_directory(directory / "configs");
  const std::filesystem::path journal_path = directory / "journal.jsonl";
  for (const auto& file : {journal_path, directory / "results.jsonl", directory / "results.csv"})
    require_writable(file);
  std::map<std::string, std::string> lines = finished(journal_path);
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::filesystem::path config = directory / "configs" / (all[i].id + ".toml");
    if (!std::filesystem::exists(config)) write_text(config, all_options(all[i]));
    if (lines.contains(all[i].id))
      ended(all[i]);
    else if (lines.emplace(all[i].id, "").second)
      open.push_back(i);  // a set-up that stands twice runs once
  }
  if (!open.empty())  // those of an earlier grid must not be taken for this one's
    for (const char* name : {"results.jsonl", "results.csv"}) std::filesystem::remove(directory / name);
  std::ofstream journal(journal_path, std::ios::app);
  if (!journal) fail_to_write(journal_path, errno);
  if (std::filesystem::file_size(journal_path) > 0) journal << '\n';  // ends what a kill has torn off
  const auto keep = [&](std::size_t job, const std::string& answer) {
    const SetUp& of = all[open[job]];
    lines[of.id] = answer.empty() ? line_of(of, failure(std::string(crashed), "its worker ended by a signal")) : answer;
    journal << lines[of.id] << std::endl;  // on its way to the disk before the next one is looked at
    if (!journal) fail_to_write(journal_path, errno);
    ended(of);
  };
  run_in_workers(
      open.size(), num_workers, [&](std::size_t job) { return run_set_up(all[open[job]]); }, keep);

  std::vector<std::string> ordered;
  std::string text;
  for (const SetUp& each : all) {
    ordered.push_back(lines.at(each.id));
    text += ordered.back() + "\n";
  }
  write_text(directory / "results.jsonl", text);
  write_text(directory / "results.csv", csv_of(ordered));
  return ordered;
}

}  // namespace fusion::sim
