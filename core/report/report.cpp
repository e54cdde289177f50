#include "core/report/report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "core/base/error.h"
#include "core/base/json_file.h"
#include "core/report/version.h"

namespace fusion {
namespace {

using Json = nlohmann::ordered_json;

/// By device of the platform: the names of its stages.
std::vector<std::string> stages_by_device(const Program& program, const Platform& platform) {
  std::vector<std::string> texts(platform.devices.size());
  for (std::size_t s = 0; s < program.stages.size(); ++s) {
    std::string& text = texts[program.stages[s].device.index()];
    text += (text.empty() ? "" : ", ") + program.stage_names[s];
  }
  return texts;
}

std::vector<DeviceReport> device_reports(const Program& program, const Platform& platform, const Measured& measured) {
  std::vector<DeviceReport> reports;
  reports.reserve(program.devices.size());
  std::vector<std::string> stages = stages_by_device(program, platform);
  for (std::size_t d = 0; d < program.devices.size(); ++d) {
    const DeviceId id = program.devices[d].device;
    DeviceReport report;
    report.name = platform.device(id).name;
    report.stage = std::move(stages[id.index()]);
    report.busy = measured.device_busy[d];
    if (measured.iteration > Seconds(0)) report.bubble_fraction = 1 - report.busy / measured.iteration;
    report.peak_memory = peak_memory(program, program.devices[d]);
    report.memory = platform.gpu_of(id).memory;
    reports.push_back(std::move(report));
  }
  return reports;
}

std::vector<LinkReport> link_reports(const Program& program, const Platform& platform, const Measured& measured) {
  std::vector<LinkReport> reports;
  std::map<Channel, std::size_t> index;
  for (const Channel& channel : channels(program)) {
    index[channel] = reports.size();
    LinkReport report;
    report.from = platform.device(channel.from).name;
    report.to = platform.device(channel.to).name;
    report.busy = measured.channel_busy[reports.size()];
    reports.push_back(std::move(report));
  }
  for (const Task& task : program.tasks) {
    if (task.kind != TaskKind::send) continue;
    LinkReport& report = reports[index.at({task.device, task.peer})];
    report.bytes += task.bytes * instances(program, task);
    report.dense_bytes += task.dense_bytes * instances(program, task);
    report.messages += instances(program, task);
  }
  return reports;
}

/// Charges the bytes of every channel to each shared link of its route.
std::vector<SharedLinkReport> shared_link_reports(const Program& program, const Platform& platform,
                                                  const std::vector<LinkReport>& links, Seconds iteration) {
  std::map<LinkId, Bytes> bytes;
  const std::vector<Channel> pairs = channels(program);
  for (std::size_t c = 0; c < pairs.size(); ++c)
    for (const LinkId link : route(platform, pairs[c].from, pairs[c].to))
      if (platform.link(link).shared) bytes[link] += links[c].bytes;

  std::vector<SharedLinkReport> reports;
  for (const auto& [link, sum] : bytes) {
    const Seconds full_rate = sum / platform.link(link).bandwidth;
    reports.push_back({platform.link(link).name, sum, iteration > Seconds(0) ? full_rate / iteration : 0});
  }
  return reports;
}

KindReport transfer_kind(const std::vector<LinkReport>& links) {
  KindReport kind{"transfer", 0, {}};
  for (const LinkReport& link : links) {
    kind.count += link.messages;
    kind.total += link.busy;
  }
  return kind;
}

Json to_json(const KindReport& kind) {
  return {{"name", kind.name}, {"count", kind.count}, {"total_s", kind.total.value}};
}

Json to_json(const DeviceReport& device) {
  return {{"name", device.name},
          {"stage", device.stage},
          {"busy_s", device.busy.value},
          {"bubble_fraction", device.bubble_fraction},
          {"peak_memory_bytes", device.peak_memory.value},
          {"memory_bytes", device.memory.value}};
}

Json to_json(const LinkReport& link) {
  return {{"from", link.from},         {"to", link.to},
          {"bytes", link.bytes.value}, {"dense_bytes", link.dense_bytes.value},
          {"busy_s", link.busy.value}, {"messages", link.messages}};
}

Json to_json(const SharedLinkReport& link) {
  return {{"name", link.name}, {"bytes", link.bytes.value}, {"utilisation", link.utilisation}};
}

template <class Part>
Json list(const std::vector<Part>& parts) {
  Json array = Json::array();
  for (const Part& part : parts) array.push_back(to_json(part));
  return array;
}

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

/// A finite number of at least zero: every measure in a report.
double amount(const JsonObject& from, std::string_view key) {
  const double value = from.real(key);
  if (value < 0) throw from.error(key, Json(value).dump() + " is negative");
  return value;
}

Bytes bytes(const JsonObject& from, std::string_view key) { return Bytes(from.integer(key, 0, most)); }

DeviceReport read_device(const JsonObject& from) {
  DeviceReport device;
  device.name = from.string("name");
  device.stage = from.string("stage");
  device.busy = Seconds(amount(from, "busy_s"));
  device.bubble_fraction = from.real("bubble_fraction");
  device.peak_memory = bytes(from, "peak_memory_bytes");
  device.memory = bytes(from, "memory_bytes");
  from.reject_unknown();
  return device;
}

LinkReport read_link(const JsonObject& from) {
  LinkReport link;
  link.from = from.string("from");
  link.to = from.string("to");
  link.bytes = bytes(from, "bytes");
  link.dense_bytes = bytes(from, "dense_bytes");
  link.busy = Seconds(amount(from, "busy_s"));
  link.messages = static_cast<std::size_t>(from.integer("messages", 0, most));
  from.reject_unknown();
  return link;
}

SharedLinkReport read_shared_link(const JsonObject& from) {
  SharedLinkReport link{from.string("name"), bytes(from, "bytes"), amount(from, "utilisation")};
  from.reject_unknown();
  return link;
}

KindReport read_kind(const JsonObject& from) {
  KindReport kind{from.string("name"), static_cast<std::size_t>(from.integer("count", 0, most)),
                  Seconds(amount(from, "total_s"))};
  from.reject_unknown();
  return kind;
}

RunInfo read_info(const JsonObject& from) {
  RunInfo info;
  info.seed = static_cast<std::uint64_t>(from.integer("seed", 0, most));
  info.model = from.string("model");
  info.platform = from.string("platform");
  info.policy = from.string("policy");
  info.order = from.string("order");
  info.compress = from.string("compress");
  info.replicas = static_cast<int>(from.integer("replicas", 1, std::numeric_limits<int>::max()));
  info.collective = from.string("collective");
  const auto micro_batches = static_cast<int>(from.integer("micro_batches", 1, std::numeric_limits<int>::max()));
  if (micro_batches % info.replicas != 0)
    throw from.error("micro_batches", std::to_string(micro_batches) + " are no even shares for " +
                                          std::to_string(info.replicas) + " replicas");
  info.micro_batches = micro_batches / info.replicas;
  info.samples = from.integer("samples", 0, most);
  info.tokens = from.integer("tokens", 0, most);
  info.predicted_iteration = Seconds(amount(from, "predicted_iteration_s"));
  info.devices_available = static_cast<std::size_t>(from.integer("devices_available", 0, most));
  return info;
}

template <class Part>
std::vector<Part> read_list(const JsonObject& from, std::string_view key, Part (*read)(const JsonObject&)) {
  std::vector<Part> parts;
  for (const JsonObject& part : from.objects(key)) parts.push_back(read(part));
  return parts;
}

}  // namespace

std::vector<Channel> channels(const Program& program) {
  std::vector<Channel> list;
  std::unordered_set<std::uint64_t> known;
  for (const Task& task : program.tasks)
    if (task.kind == TaskKind::send && known.insert(std::uint64_t{task.device.value} << 32 | task.peer.value).second)
      list.push_back({task.device, task.peer});
  return list;
}

std::vector<KindReport> planned_kinds(const Program& program) {
  std::map<Phase, KindReport> phases;
  KindReport codec{"codec", 0, {}};
  for (const Task& task : program.tasks) {
    if (is_message(task)) continue;
    const std::size_t count = instances(program, task);
    KindReport& phase = phases[task.phase];
    phase.name = name_of(task.phase);
    phase.count += count;
    phase.total += task.duration * static_cast<double>(count);
    if (task.codec_duration == Seconds(0)) continue;
    codec.count += count;
    codec.total += task.codec_duration * static_cast<double>(count);
  }
  std::vector<KindReport> kinds;
  for (auto& [phase, kind] : phases) kinds.push_back(std::move(kind));
  if (codec.count > 0) kinds.push_back(std::move(codec));
  return kinds;
}

Report make_report(const Program& program, const Platform& platform, std::string engine, std::string network_profile,
                   Measured measured) {
  Report report;
  report.engine = std::move(engine);
  report.network_profile = std::move(network_profile);
  report.version = version();
  report.info = program.info;
  report.iteration = measured.iteration;
  report.devices = device_reports(program, platform, measured);
  report.links = link_reports(program, platform, measured);
  report.shared_links = shared_link_reports(program, platform, report.links, report.iteration);
  report.task_kinds = std::move(measured.task_kinds);
  if (!report.links.empty()) report.task_kinds.push_back(transfer_kind(report.links));
  report.timeline = std::move(measured.timeline);
  return report;
}

double samples_per_second(const Report& report) {
  return report.iteration > Seconds(0) ? static_cast<double>(report.info.samples) / report.iteration.value : 0;
}

double tokens_per_second(const Report& report) {
  return report.iteration > Seconds(0) ? static_cast<double>(report.info.tokens) / report.iteration.value : 0;
}

std::string write_report(const Report& report) {
  const RunInfo& info = report.info;
  Json json = {{"engine", report.engine},
               {"network_profile", report.network_profile},
               {"seed", info.seed},
               {"version", report.version},
               {"model", info.model},
               {"platform", info.platform},
               {"policy", info.policy},
               {"order", info.order},
               {"compress", info.compress},
               {"micro_batches", info.micro_batches * info.replicas},
               {"replicas", info.replicas},
               {"collective", info.collective},
               {"samples", info.samples},
               {"tokens", info.tokens},
               {"predicted_iteration_s", info.predicted_iteration.value},
               {"iteration_s", report.iteration.value},
               {"samples_per_s", samples_per_second(report)},
               {"tokens_per_s", tokens_per_second(report)},
               {"devices_used", report.devices.size()},
               {"devices_available", info.devices_available},
               {"devices", list(report.devices)},
               {"links", list(report.links)},
               {"shared_links", list(report.shared_links)},
               {"task_kinds", list(report.task_kinds)}};
  if (!report.loss.empty()) json["loss"] = report.loss;
  return json.dump(2) + "\n";
}

Report read_report(const std::string& file) {
  const JsonObject json = load_json(file);
  Report report;
  report.engine = json.string("engine");
  report.network_profile = json.string("network_profile");
  report.version = json.string("version");
  report.info = read_info(json);
  report.iteration = Seconds(amount(json, "iteration_s"));
  if (report.iteration == Seconds(0)) throw json.error("iteration_s", "0: no run takes no time");
  report.devices = read_list(json, "devices", read_device);
  report.links = read_list(json, "links", read_link);
  report.shared_links = read_list(json, "shared_links", read_shared_link);
  report.task_kinds = read_list(json, "task_kinds", read_kind);
  if (json.has("loss")) report.loss = json.reals("loss");
  for (const std::string_view derived : {"samples_per_s", "tokens_per_s"}) amount(json, derived);
  if (json.integer("devices_used", 0, most) != static_cast<std::int64_t>(report.devices.size()))
    throw json.error("devices_used", "differs from the " + std::to_string(report.devices.size()) + " devices listed");
  json.reject_unknown();
  return report;
}

}  // namespace fusion
