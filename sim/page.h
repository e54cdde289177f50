// The report page: one HTML file that shows any mix of results and needs no network. All that it shows is one JSON
// object inside it; sim/report/ holds its markup, style and script, which CMake embeds together with d3.
//
//   runs[]       {source, report}: report.json as it is
//   timelines[]  {source, tick_s, lanes[], kinds[], names[], events}: page_timeline.cpp
//   rankings[]   {source, rows[]}: the figures of `rank --json`, without devices and links
//   sweeps[]     {source, axes[], fixed, rows[]}: page_tables.cpp
//   platforms[]  {name, views[]}: page_platform.cpp
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/platform/platform.h"
#include "core/report/report.h"

namespace fusion::sim {

struct PageRequest {
  /// report.json, ranking.json, results.jsonl or the folder of a sweep, timeline.json, schedule.json
  std::vector<std::string> results;
  std::vector<std::string> platforms;  ///< names or files; a schedule brings its own
};

/// Schedules are replayed by the native engine, which unlike SimGrid runs many times in one process.
/// Throws InputError for a file that is none of these, or is wrong; what a schedule may throw too.
nlohmann::ordered_json page_data(const PageRequest&);

/// Throws RuntimeFault where the build had no charting library.
std::string page_html(const nlohmann::ordered_json& data);

// The parts of the data.

/// Of a replayed program.
nlohmann::ordered_json page_timeline(const std::string& source, const Report&, const Program&, const Platform&);
/// Of a file that `--timeline` wrote.
nlohmann::ordered_json page_timeline(const std::string& file);
/// `text` is the array that `rank --json` writes.
nlohmann::ordered_json page_ranking(const std::string& file, const std::string& text);
/// `lines` are objects, each a set-up.
nlohmann::ordered_json page_sweep(const std::string& file, const std::vector<std::string>& lines);
/// Latency and bandwidth that a message alone gets from each to each: of devices where there are at most 64, and of
/// sites where there are several.
nlohmann::ordered_json page_platform(const Platform&);

}  // namespace fusion::sim
