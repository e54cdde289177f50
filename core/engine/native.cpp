#include "core/engine/native.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/engine/native_run.h"

namespace fusion {
namespace {

constexpr std::array networks = {
    NativeNetworkRow{NativeNetwork::ideal, "ideal",
                     "messages take latency + bytes / bandwidth; links shared max-min fair; no protocol"},
    NativeNetworkRow{NativeNetwork::no_share, "no-share", "as ideal, but every message has its route to itself"},
    NativeNetworkRow{NativeNetwork::one_send, "one-send",
                     "as no-share, but a device sends one message at a time, in program order"}};

bool recvs_wait_for_messages_alone(const Program& program) {
  return std::ranges::none_of(program.tasks,
                              [](const Task& task) { return task.kind == TaskKind::recv && !task.after.empty(); });
}

/// Whether two channels can meet on a link.
bool any_link_is_shared(const Program& program, const Platform& platform) {
  std::vector<bool> used(platform.links.size());
  for (const Channel& channel : channels(program))
    for (const LinkId id : route(platform, channel.from, channel.to)) {
      if (!platform.link(id).shared) continue;
      if (used[id.index()]) return true;
      used[id.index()] = true;
    }
  return false;
}

Measured run(const Program& program, const Platform& platform, const NativeOptions& options) {
  const bool shared = options.network == NativeNetwork::ideal && any_link_is_shared(program, platform);
  if (!shared && recvs_wait_for_messages_alone(program)) return run_unshared(program, platform, options);
  check(options.network != NativeNetwork::one_send, "one-send: a recv that waits for more than its message");
  return run_shared(program, platform, shared, options.timeline);
}

}  // namespace

std::span<const NativeNetworkRow> native_networks() { return networks; }

const NativeNetworkRow& find_native_network(std::string_view name) {
  std::vector<std::string_view> names;
  for (const NativeNetworkRow& row : networks) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  throw InputError("", "network", unknown_name(name, names));
}

Report simulate_native(const Program& program, const Platform& platform, const NativeOptions& options) {
  Measured measured = run(program, platform, options);
  measured.task_kinds = planned_kinds(program);
  const NativeNetworkRow& row = *std::ranges::find(networks, options.network, &NativeNetworkRow::network);
  return make_report(program, platform, "native", std::string(row.name) + ": " + std::string(row.help),
                     std::move(measured));
}

Seconds native_iteration(const Program& program, const Platform& platform, NativeNetwork network) {
  return run(program, platform, {network}).iteration;
}

}  // namespace fusion
