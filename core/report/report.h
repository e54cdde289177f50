// What happened: the one result schema, from either runner. report.json is this struct, key by key.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/platform/platform.h"
#include "core/program/program.h"

namespace fusion {

struct DeviceReport {
  std::string name;
  std::string stage;  ///< "blocks 3-7"
  Seconds busy{};
  double bubble_fraction = 0;  ///< 1 - busy / iteration
  Bytes peak_memory{}, memory{};
  bool operator==(const DeviceReport&) const = default;
};

/// A channel: all messages from one device to another.
struct LinkReport {
  std::string from, to;
  Bytes bytes{}, dense_bytes{};
  Seconds busy{};  ///< time with a message on the way
  std::size_t messages = 0;
  bool operator==(const LinkReport&) const = default;
};

/// A link of the platform that messages crossed.
struct SharedLinkReport {
  std::string name;
  Bytes bytes{};
  double utilisation = 0;  ///< bytes / (bandwidth x iteration)
  bool operator==(const SharedLinkReport&) const = default;
};

/// All steps of one kind, on all devices: "forward", "backward", …, "codec", and "transfer" for the messages.
struct KindReport {
  std::string name;
  std::size_t count = 0;
  Seconds total{};
  bool operator==(const KindReport&) const = default;
};

/// One step as it ran. Sends run from their start to their arrival; a recv is its send's arrival, seen at the other
/// end.
struct TimelineEvent {
  TaskId task;
  std::uint32_t micro_batch = 0;
  Seconds start{}, end{};
};

struct Report {
  std::string engine;           ///< "simgrid", "mpi"
  std::string network_profile;  ///< name and factors
  std::string version;
  RunInfo info;
  Seconds iteration{};
  std::vector<DeviceReport> devices;
  std::vector<LinkReport> links;
  std::vector<SharedLinkReport> shared_links;
  std::vector<KindReport> task_kinds;
  std::vector<double> loss;             ///< executed runs
  std::vector<TimelineEvent> timeline;  ///< empty unless asked for
};

/// What a runner measures; the rest of a Report follows from the Program.
struct Measured {
  Seconds iteration{};
  std::vector<Seconds> device_busy;    ///< by Program::devices
  std::vector<Seconds> channel_busy;   ///< by channels(program)
  std::vector<KindReport> task_kinds;  ///< of compute steps; a simulator takes `planned_kinds`
  std::vector<TimelineEvent> timeline;
};

/// Compute steps by phase, and what their codecs take, by the program's own durations. Kinds without a step are left
/// out.
std::vector<KindReport> planned_kinds(const Program&);

/// Directed device pairs that exchange messages, in order of first appearance in the tasks.
struct Channel {
  DeviceId from, to;
  auto operator<=>(const Channel&) const = default;
};
std::vector<Channel> channels(const Program&);

Report make_report(const Program&, const Platform&, std::string engine, std::string network_profile, Measured);

double samples_per_second(const Report&);
double tokens_per_second(const Report&);

std::string write_report(const Report&);
/// Throws InputError. The timeline is not part of report.json.
Report read_report(const std::string& file);

/// Chrome trace events (opens in Perfetto): a process per device, a track each for compute, send and receive.
std::string write_timeline(const Report&, const Program&, const Platform&);

}  // namespace fusion
