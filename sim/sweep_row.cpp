#include "sim/sweep_row.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.h"
#include "core/plan/run_config.h"
#include "core/program/lower.h"
#include "sim/engines.h"

namespace fusion::sim {
namespace {

using Json = nlohmann::ordered_json;

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
  const std::string key = problem_key(config);
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

Ending ending_of(const Json& json) {
  for (const auto& [key, value] : json.items())
    if (!value.is_string() && !value.is_number()) return Ending::none;
  if (json.contains("failed")) return json["failed"] == crashed ? Ending::crash : Ending::finished;
  const auto is_there = [&](const char* key) { return json.contains(key) && json[key].is_number(); };
  return std::ranges::all_of(figures, is_there) ? Ending::finished : Ending::none;
}

std::string csv_cell(const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

std::string all_options(const SetUp& of) {
  return "# simulate it with --engine " + of.engine + " --network " + of.network + "\n" + write_run_config(of.config);
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

std::string crash_row(const SetUp& of, const std::string& death) {
  return line_of(of, failure(std::string(crashed), "its worker " + death));
}

ReadRow read_row(const std::string& line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("id") || !json["id"].is_string()) return {};
  return {json["id"], ending_of(json)};
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

}  // namespace fusion::sim
