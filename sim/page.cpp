#include "sim/page.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json_file.h"
#include "core/plan/plan.h"
#include "core/program/lower.h"
#include "core/report/version.h"
#include "sim/engines.h"
#include "sim/page_files.h"

namespace fusion::sim {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// The results of a sweep's folder; its journal while it still runs.
std::string sweep_file(const std::string& folder) {
  for (const char* name : {"results.jsonl", "journal.jsonl"})
    if (const auto file = std::filesystem::path(folder) / name; std::filesystem::exists(file)) return file.string();
  throw InputError(folder, "", "has neither results.jsonl nor journal.jsonl; give the folder of fusion-sim sweep -o");
}

std::string expected() {
  return "give a report.json, ranking.json, schedule.json, timeline.json, or the folder of a sweep";
}

class Builder {
 public:
  explicit Builder(const PageRequest& request) : request_(request) {
    for (const char* list : {"runs", "timelines", "rankings", "sweeps", "platforms"}) data_[list] = Json::array();
    data_["version"] = version();
  }

  Json build() && {
    for (const std::string& path : request_.results) add(path);
    for (const std::string& name : request_.platforms) add_platform(load_platform(name));
    return std::move(data_);
  }

 private:
  void add(const std::string& path) {
    if (std::filesystem::is_directory(path)) return add_sweep(sweep_file(path));
    if (path.ends_with(".jsonl")) return add_sweep(path);
    const std::string text = read_text(path);
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first != std::string::npos && text[first] == '[') return add_list(path, text);
    add_object(path, load_json(path));
  }

  void add_object(const std::string& path, const JsonObject& json) {
    if (json.has("traceEvents"))
      data_["timelines"].push_back(page_timeline(path));
    else if (json.has("stages"))
      add_schedule(path);
    else if (json.has("engine") || json.has("iteration_s"))
      add_run(path, read_report(path));
    else
      throw InputError(path, "", "is no result that a page can show; " + expected());
  }

  void add_list(const std::string& path, const std::string& text) {
    const auto rows = parse_json("{\"rows\":" + text + "}", path).objects("rows");
    if (rows.empty()) throw InputError(path, "", "is an empty list; " + expected());
    if (!rows.front().has("id")) return data_["rankings"].push_back(page_ranking(path, text));
    std::vector<std::string> lines;
    for (const Json& row : Json::parse(text)) lines.push_back(row.dump());
    data_["sweeps"].push_back(page_sweep(path, lines));
  }

  void add_sweep(const std::string& file) { data_["sweeps"].push_back(page_sweep(file, lines_of(read_text(file)))); }

  void add_run(const std::string& source, const Report& report) {
    data_["runs"].push_back({{"source", source}, {"report", Json::parse(write_report(report))}});
  }

  void add_schedule(const std::string& file) {
    const auto [problem, schedule] = load_plan(file);
    const Program program = lower(schedule, problem.graph, problem.costs, problem.platform);
    validate(program, problem.platform, Sends::buffered, file);
    const Report report = find_engine("native").simulate(program, problem.platform, "ideal", true);
    add_run(file, report);
    data_["timelines"].push_back(page_timeline(file, report, program, problem.platform));
    add_platform(problem.platform);
  }

  void add_platform(const Platform& platform) {
    if (platforms_.insert(platform.name).second) data_["platforms"].push_back(page_platform(platform));
  }

  const PageRequest& request_;
  std::set<std::string> platforms_;
  Json data_;
};

/// JSON inside a script element: no name in it may end the element or begin a comment.
std::string inert(const Json& data) {
  std::string text;
  for (const char c : data.dump(-1, ' ', false, Json::error_handler_t::replace))
    c == '<' ? void(text += "\\u003c") : text.push_back(c);
  return text;
}

}  // namespace

Json page_data(const PageRequest& request) { return Builder(request).build(); }

std::string page_html(const Json& data) {
  if (page_files::library.empty())
    throw RuntimeFault("built without d3, which draws the page: install the Debian package node-d3 and build again");
  const std::array<std::pair<std::string_view, std::string>, 4> parts = {
      {{"/*style*/", std::string(page_files::style)},
       {"/*library*/", std::string(page_files::library)},
       {"/*data*/", inert(data)},
       {"/*script*/", std::string(page_files::script)}}};
  std::string html;
  std::string_view rest = page_files::markup;
  for (const auto& [place, text] : parts) {
    const std::size_t at = rest.find(place);
    check(at != std::string_view::npos, "sim/report/page.html has its parts in another order");
    html.append(rest.substr(0, at)).append(text);
    rest.remove_prefix(at + place.size());
  }
  return html.append(rest);
}

}  // namespace fusion::sim
