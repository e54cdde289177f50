// The only source that knows SimGrid (3.32). A program of any size is fed lazily: an Exec or a Comm exists only while
// it runs, and starts from the completion of what it waited for, so that SimGrid never sees more than one activity per
// device and channel.
#include "sim/simulate.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/routing/NetPoint.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/s4u.hpp>
#include <vector>

#include "core/base/error.h"
#include "core/engine/replay.h"

namespace fusion::sim {
namespace {

namespace s4u = simgrid::s4u;
namespace routing = simgrid::kernel::routing;

constexpr std::array profiles = {
    NetworkProfile{"ideal", "messages take latency + bytes / bandwidth; links shared max-min fair; no protocol",
                   "SimGrid CM02: bandwidth x 1, latency x 1, no cross-traffic, no TCP window"},
    NetworkProfile{"tcp", "SimGrid's default model of TCP: slow start, window, acknowledgements",
                   "SimGrid LV08: bandwidth x 0.97, latency x 13.01, 5 % cross-traffic, TCP window 4 MiB"}};

/// SimGrid treats events within `surf/precision` seconds as one, by default 10 us: ops of 1 us would take no time at
/// all. It must stay above what a double tells apart at the end of the run, or the clock stands still. Rates are solved
/// within `maxmin/precision`.
std::vector<std::string> settings(const NetworkProfile& profile, Seconds expected) {
  char precision[64];
  std::snprintf(precision, sizeof precision, "surf/precision:%.3e", std::max(1e-12, 4e-15 * expected.value));
  std::vector<std::string> list = {precision, "maxmin/precision:1e-12"};
  if (profile.name == "ideal")
    list.insert(list.end(), {"network/model:CM02", "network/crosstraffic:0", "network/bandwidth-factor:1",
                             "network/latency-factor:1", "network/weight-S:0", "network/TCP-gamma:0"});
  else
    list.emplace_back("network/model:LV08");
  return list;
}

/// A zone whose routes are those of `fusion::route`: nothing is stored per pair, and there is one truth.
class PlatformZone : public routing::NetZoneImpl {
 public:
  PlatformZone(const Platform& platform, bool with_latency)
      : NetZoneImpl("platform"), platform_(platform), with_latency_(with_latency), links_(platform.links.size()) {}

  /// Of speed 1: an Exec's "flops" are its seconds.
  s4u::Host* add_host(DeviceId device) {
    s4u::Host* host = get_iface()->create_host("d" + std::to_string(device.index()), 1.0);
    check(host->get_netpoint()->id() == device_of_.size(), "SimGrid numbers the points of a zone in order");
    device_of_.push_back(device);
    return host;
  }

  void add_links(const fusion::Route& path) {
    for (const LinkId id : path) {
      if (links_[id.index()] != nullptr) continue;
      const Link& link = platform_.link(id);
      s4u::Link* made = get_iface()->create_link("l" + std::to_string(id.index()), link.bandwidth.value);
      if (with_latency_) made->set_latency(link.latency.value);
      if (!link.shared) made->set_sharing_policy(s4u::Link::SharingPolicy::FATPIPE);
      links_[id.index()] = made->get_impl();
    }
  }

 private:
  void get_local_route(const routing::NetPoint* from, const routing::NetPoint* to, routing::Route* into,
                       double* latency_s) override {
    const fusion::Route path = route(platform_, device_of_[from->id()], device_of_[to->id()]);
    for (const LinkId id : path) into->link_list_.push_back(links_[id.index()]);
    if (latency_s != nullptr && with_latency_) *latency_s += path.latency.value;
  }

  const Platform& platform_;
  const bool with_latency_;
  std::vector<DeviceId> device_of_;  ///< by NetPoint::id()
  std::vector<simgrid::kernel::resource::StandardLinkImpl*> links_;
};

/// SimGrid wants its settings before the platform, and talks of each unless told not to.
s4u::Engine& make_engine(const NetworkProfile& profile, Seconds expected) {
  static bool made = false;
  if (made) throw std::logic_error("simulate: SimGrid allows one engine per process; use simulate_isolated");
  made = true;
  std::vector<std::string> arguments = {"fusion-sim", "--log=root.threshold:warning"};
  for (const std::string& setting : settings(profile, expected)) arguments.push_back("--cfg=" + setting);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  int argc = static_cast<int>(argv.size());
  argv.push_back(nullptr);
  static s4u::Engine engine(&argc, argv.data());
  return engine;
}

class Simulation {
 public:
  Simulation(const Program& program, const Platform& platform, const SimulateOptions& options)
      : program_(program),
        platform_(platform),
        options_(options),
        profile_(find_network_profile(options.network)),
        pipelined_(profile_.name == "ideal"),
        engine_(make_engine(profile_, program.info.predicted_iteration)) {
    auto* zone = new PlatformZone(platform, !pipelined_);  // the engine owns its root zone
    std::vector<s4u::Host*> host_of(platform.devices.size());
    for (const DeviceProgram& device : program.devices) {
      machines_.push_back({.host = zone->add_host(device.device)});
      host_of[device.device.index()] = machines_.back().host;
    }
    for (const Channel& channel : channels(program)) {
      const fusion::Route path = route(platform, channel.from, channel.to);
      zone->add_links(path);
      if (!pipelined_) zone->add_links(route(platform, channel.to, channel.from));  // what acknowledgements cross
      wires_.push_back(
          {.from = host_of[channel.from.index()], .to = host_of[channel.to.index()], .latency_s = path.latency.value});
    }
    zone->seal();
  }

  Measured run() {
    Replay replay(program_);
    replay_ = &replay;
    measured_.device_busy.resize(machines_.size());
    measured_.channel_busy.resize(wires_.size());
    if (options_.timeline) measured_.timeline.reserve(num_steps(program_));
    s4u::Activity::on_completion_cb([this](const s4u::Activity& activity) { activity_ended(activity); });
    start_ready();
    engine_.run();
    if (!replay.finished())
      throw RuntimeFault("the simulation stopped at " + format(Seconds(now_s())) +
                         " with work left:" + replay.what_waits(platform_));
    return std::move(measured_);
  }

 private:
  /// A device, and the step it runs.
  struct Machine {
    s4u::Host* host = nullptr;
    s4u::ExecPtr exec{};
    Step step{};
    double start_s = 0;
  };

  /// A channel, and the message in its bandwidth phase.
  struct Wire {
    s4u::Host *from = nullptr, *to = nullptr;
    double latency_s = 0;
    s4u::CommPtr comm{};
    Step send{};
    double start_s = 0, last_arrival_s = 0;
  };

  static double now_s() { return s4u::Engine::get_clock(); }

  /// An activity carries its place: even numbers are machines, odd ones wires.
  static void* mark(std::uint32_t place, bool wire) {
    return reinterpret_cast<void*>(std::uintptr_t{place} * 2 + (wire ? 1 : 0));
  }

  void activity_ended(const s4u::Activity& activity) {
    const auto mark = reinterpret_cast<std::uintptr_t>(activity.get_data<void>());
    const auto place = static_cast<std::uint32_t>(mark / 2);
    // SimGrid still holds on to this activity; the one before it can go.
    if (mark % 2 == 0) {
      last_ended_ = std::move(machines_[place].exec);
      end_step(place);
    } else {
      last_ended_ = std::move(wires_[place].comm);
      end_bandwidth_phase(place);
    }
    start_ready();
  }

  void start_ready() {
    while (const auto start = replay_->take_ready()) {
      if (start->kind == Start::Kind::step)
        start_step(start->place, start->step);
      else
        start_message(start->place, start->step);
    }
  }

  void start_step(std::uint32_t place, Step step) {
    const Task& task = program_.task(step.task);
    const Seconds duration = task.duration + task.codec_duration;
    Machine& machine = machines_[place];
    machine.step = step;
    machine.start_s = now_s();
    measured_.device_busy[place] += duration;
    if (duration == Seconds(0)) return end_step(place);
    machine.exec = s4u::Exec::init();
    machine.exec->set_flops_amount(duration.value);
    machine.exec->set_host(machine.host);
    machine.exec->set_data(mark(place, false));
    machine.exec->start();
  }

  void end_step(std::uint32_t place) {
    record(machines_[place].step, machines_[place].start_s);
    replay_->step_ended(place);
  }

  void start_message(std::uint32_t place, Step send) {
    Wire& wire = wires_[place];
    const Bytes bytes = program_.task(send.task).bytes;
    wire.send = send;
    wire.start_s = now_s();
    if (pipelined_ && bytes == Bytes(0)) return end_bandwidth_phase(place);
    wire.comm = s4u::Comm::sendto_init(wire.from, wire.to);
    wire.comm->set_payload_size(static_cast<std::uint64_t>(bytes.value));
    wire.comm->set_data(mark(place, true));
    wire.comm->start();
  }

  /// Ideal: the message travels on for its latency while the next one may enter. TCP: SimGrid has counted the latency.
  void end_bandwidth_phase(std::uint32_t place) {
    const Wire& wire = wires_[place];
    const double latency_s = pipelined_ ? wire.latency_s : 0;
    if (latency_s == 0) {
      arrive(place, wire.send, wire.start_s);
    } else {
      simgrid::kernel::timer::Timer::set(now_s() + latency_s, [this, place, send = wire.send, start = wire.start_s] {
        arrive(place, send, start);
        start_ready();
      });
    }
    replay_->channel_freed(place);
  }

  void arrive(std::uint32_t place, Step send, double start_s) {
    Wire& wire = wires_[place];
    measured_.channel_busy[place] += Seconds(now_s() - std::max(start_s, wire.last_arrival_s));
    wire.last_arrival_s = now_s();
    record(send, start_s);
    if (options_.timeline) record({program_.task(send.task).match, send.micro_batch}, start_s);
    replay_->arrived(send);
  }

  void record(Step step, double start_s) {
    measured_.iteration = std::max(measured_.iteration, Seconds(now_s()));
    if (options_.timeline)
      measured_.timeline.push_back({step.task, step.micro_batch, Seconds(start_s), Seconds(now_s())});
  }

  const Program& program_;
  const Platform& platform_;
  const SimulateOptions& options_;
  const NetworkProfile& profile_;
  const bool pipelined_;  ///< a channel is free again before its message has arrived
  s4u::Engine& engine_;
  std::vector<Machine> machines_;  ///< by Program::devices
  std::vector<Wire> wires_;        ///< by channels(program)
  s4u::ActivityPtr last_ended_;
  Replay* replay_ = nullptr;
  Measured measured_;
};

}  // namespace

std::span<const NetworkProfile> network_profiles() { return profiles; }

const NetworkProfile& find_network_profile(std::string_view name) {
  std::vector<std::string_view> names;
  for (const NetworkProfile& profile : profiles) {
    if (profile.name == name) return profile;
    names.push_back(profile.name);
  }
  throw InputError("", "network", unknown_name(name, names));
}

std::string describe(const NetworkProfile& profile) {
  return std::string(profile.name) + ": " + std::string(profile.factors);
}

void build_only(const Program& program, const Platform& platform, const SimulateOptions& options) {
  Simulation(program, platform, options);
}

Report simulate(const Program& program, const Platform& platform, const SimulateOptions& options) {
  Simulation simulation(program, platform, options);
  Measured measured = simulation.run();
  measured.task_kinds = planned_kinds(program);
  const NetworkProfile& profile = find_network_profile(options.network);
  return make_report(program, platform, "simgrid", describe(profile), std::move(measured));
}

}  // namespace fusion::sim
