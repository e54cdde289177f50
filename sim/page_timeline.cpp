// A timeline for the page, in columns of whole numbers: ten thousands of bars stay small, and quick to parse.
//   lanes[]  {name, detail, link}: devices, then channels ("a > b") as they first send
//   events   {lane[], kind[], name[], micro_batch[], start[], length[], codec[]}: times in ticks; micro_batch -1 for
//            what is done once per iteration; codec is the part of the length that is its codecs' (0 where not known)
// Kinds are phases ("forward") and "transfer". A message is one bar, from its start to its arrival.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/json_file.h"
#include "sim/page.h"

namespace fusion::sim {
namespace {

using Json = nlohmann::ordered_json;

constexpr double tick_s = 1e-7;
constexpr std::string_view transfer = "transfer";

std::int64_t ticks(Seconds time) { return std::llround(time.value / tick_s); }

struct Bar {
  std::size_t lane;
  std::string kind, name;
  std::int64_t micro_batch = -1;
  Seconds start{}, length{}, codec{};
};

class Columns {
 public:
  std::size_t lane(const std::string& name, const std::string& detail, bool link) {
    const auto [at, is_new] = lanes_.emplace(name, lanes_.size());
    if (is_new) json_["lanes"].push_back({{"name", name}, {"detail", detail}, {"link", link}});
    return at->second;
  }
  std::size_t channel(const std::string& from, const std::string& to) { return lane(from + " > " + to, "", true); }

  void add(const Bar& bar) {
    Json& events = json_["events"];
    events["lane"].push_back(bar.lane);
    events["kind"].push_back(number_of(kinds_, "kinds", bar.kind));
    events["name"].push_back(number_of(names_, "names", bar.name));
    events["micro_batch"].push_back(bar.micro_batch);
    events["start"].push_back(ticks(bar.start));
    events["length"].push_back(ticks(bar.length));
    events["codec"].push_back(ticks(bar.codec));
  }

  Json finish(const std::string& source) && {
    json_["source"] = source;
    json_["tick_s"] = tick_s;
    return std::move(json_);
  }

 private:
  std::size_t number_of(std::map<std::string, std::size_t>& known, const char* list, const std::string& text) {
    const auto [at, is_new] = known.emplace(text, known.size());
    if (is_new) json_[list].push_back(text);
    return at->second;
  }

  std::map<std::string, std::size_t> lanes_, kinds_, names_;
  Json json_ = {
      {"lanes", Json::array()}, {"kinds", Json::array()}, {"names", Json::array()}, {"events", Json::object()}};
};

/// "device: stage" of a Chrome trace's process.
std::pair<std::string, std::string> split(const std::string& text, std::string_view separator) {
  const std::size_t at = text.find(separator);
  if (at == std::string::npos) return {text, ""};
  return {text.substr(0, at), text.substr(at + separator.size())};
}

using Processes = std::map<std::int64_t, std::string>;

Processes read_processes(const std::vector<JsonObject>& events) {
  Processes names;
  for (const JsonObject& event : events)
    if (event.string("ph") == "M" && event.string("name") == "process_name")
      names[event.integer("pid", 0, 1 << 30)] = event.object("args").string("name");
  return names;
}

/// "forward block 3 · micro-batch 7"
Bar read_bar(const JsonObject& event) {
  constexpr std::string_view separator = " · micro-batch ";
  const auto [name, micro_batch] = split(event.string("name"), separator);
  Bar bar{0, event.string("cat"), name};
  bar.start = Seconds(event.real("ts") * 1e-6);
  bar.length = Seconds(event.real("dur") * 1e-6);
  if (bar.length < Seconds(0)) throw event.error("dur", "is negative");
  if (micro_batch.empty()) return bar;
  if (micro_batch.size() > 9 || micro_batch.find_first_not_of("0123456789") != std::string::npos)
    throw event.error("name", in_quotes(micro_batch) + " is no micro-batch");
  bar.micro_batch = std::stoll(micro_batch);
  return bar;
}

}  // namespace

Json page_timeline(const std::string& source, const Report& report, const Program& program, const Platform& platform) {
  Columns columns;
  for (const DeviceReport& device : report.devices) columns.lane(device.name, device.stage, false);
  for (const TimelineEvent& event : report.timeline) {
    const Task& task = program.task(event.task);
    if (task.kind == TaskKind::recv) continue;
    const std::string& device = platform.device(task.device).name;
    const bool sends = task.kind == TaskKind::send;
    const std::size_t lane =
        sends ? columns.channel(device, platform.device(task.peer).name) : columns.lane(device, "", false);
    columns.add({lane, std::string(sends ? transfer : name_of(task.phase)), describe(program, platform, event.task),
                 task.per_micro_batch ? std::int64_t{event.micro_batch} : -1, event.start, event.end - event.start,
                 task.codec_duration});
  }
  return std::move(columns).finish(source);
}

Json page_timeline(const std::string& file) {
  const std::vector<JsonObject> events = load_json(file).objects("traceEvents");
  Columns columns;
  const Processes processes = read_processes(events);
  for (const auto& [id, name] : processes) {
    const auto [device, stage] = split(name, ": ");
    columns.lane(device, stage, false);
  }
  for (const JsonObject& event : events) {
    if (event.string("ph") != "X") continue;
    const auto process = processes.find(event.integer("pid", 0, 1 << 30));
    if (process == processes.end()) throw event.error("pid", "no process_name event has it");
    Bar bar = read_bar(event);
    const std::string device = split(process->second, ": ").first;
    if (bar.name.starts_with("recv ")) continue;  // its send is the same bar
    if (event.has("args")) {
      bar.kind = transfer;
      bar.lane = columns.channel(device, event.object("args").string("peer"));
    } else {
      bar.lane = columns.lane(device, "", false);
    }
    columns.add(bar);
  }
  return std::move(columns).finish(file);
}

}  // namespace fusion::sim
