// Rankings and sweeps for the page: the figures that it draws.
#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/json_file.h"
#include "sim/page.h"

namespace fusion::sim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array figures = {"iteration_s",  "predicted_iteration_s", "samples_per_s",    "tokens_per_s",
                                "devices_used", "devices_available",     "peak_memory_bytes"};

Json ranking_row(const JsonObject& row) {
  Json json = {{"policy", row.string("policy")}, {"compress", row.string("compress")}};
  if (row.has("infeasible")) {
    json["infeasible"] = row.string("infeasible");
    return json;
  }
  for (const char* figure :
       {"predicted_iteration_s", "iteration_s", "samples_per_s", "speedup", "devices_used", "devices_available"})
    json[figure] = row.real(figure);
  const std::vector<JsonObject> devices = row.objects("devices");
  double bubble = 0, bytes = 0;
  for (const JsonObject& device : devices) bubble += device.real("bubble_fraction");
  for (const JsonObject& link : row.objects("links")) bytes += link.real("bytes");
  json["mean_bubble_fraction"] = bubble / static_cast<double>(std::max<std::size_t>(1, devices.size()));
  json["wire_bytes"] = bytes;
  return json;
}

/// Values that an option takes over all rows, in order of first appearance.
using Values = std::vector<std::string>;

/// Every key of a row whose value is a text is an option of the run.
std::vector<std::pair<std::string, Values>> options_of(const std::vector<Json>& rows) {
  std::vector<std::pair<std::string, Values>> options;
  std::set<std::pair<std::string, std::string>> seen;
  for (const Json& row : rows)
    for (const auto& [key, value] : row.items()) {
      if (!value.is_string() || key == "id" || key == "failed" || key == "reason") continue;
      auto at = std::ranges::find(options, key, &std::pair<std::string, Values>::first);
      if (at == options.end()) at = options.insert(options.end(), {key, {}});
      if (seen.emplace(key, value.get<std::string>()).second) at->second.push_back(value);
    }
  return options;
}

Json axis_of(const std::string& file, const std::string& key, const Values& values) {
  Json axis = {{"key", key}, {"values", values}};
  if (key != "bandwidth") return axis;
  for (const std::string& value : values) try {
      axis["bits_per_s"].push_back(value.empty() ? Json(nullptr) : Json(parse_bandwidth(value).value * 8));
    } catch (const std::invalid_argument& error) {
      throw InputError(file, "bandwidth", error.what());
    }
  return axis;
}

}  // namespace

Json page_ranking(const std::string& file, const std::string& text) {
  Json rows = Json::array();
  for (const JsonObject& row : parse_json("{\"rows\":" + text + "}", file).objects("rows"))
    rows.push_back(ranking_row(row));
  return {{"source", file}, {"rows", rows}};
}

Json page_sweep(const std::string& file, const std::vector<std::string>& lines) {
  std::vector<Json> rows;
  for (const std::string& line : lines) {
    const JsonObject row = parse_json(line, file);
    row.string("id");
    row.string("policy");
    if (!row.has("failed")) row.real("iteration_s");
    rows.push_back(Json::parse(line));
  }
  Json sweep = {{"source", file}, {"axes", Json::array()}, {"fixed", Json::object()}, {"rows", Json::array()}};
  for (const auto& [key, values] : options_of(rows))
    values.size() == 1 ? void(sweep["fixed"][key] = values.front())
                       : sweep["axes"].push_back(axis_of(file, key, values));
  for (const Json& row : rows) {
    Json kept;
    for (const Json& axis : sweep["axes"])
      if (const std::string key = axis["key"]; row.contains(key)) kept[key] = row[key];
    for (const char* figure : figures)
      if (row.contains(figure)) kept[figure] = row[figure];
    if (row.contains("failed")) kept["failed"] = row["failed"];
    sweep["rows"].push_back(std::move(kept));
  }
  return sweep;
}

}  // namespace fusion::sim
