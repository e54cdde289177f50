#include "core/plan/traffic.h"

#include <limits>
#include <map>

#include "core/platform/platform.h"

namespace fusion {
namespace {

constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

/// Collects the resources that messages cross.
class Collector {
 public:
  Collector(const Schedule& schedule, const Platform& platform)
      : schedule_(schedule),
        platform_(platform),
        resource_of_link_(platform.links.size(), none),
        devices_return_(devices_return(schedule, platform)) {}

  void add(const Message& message) {
    const Route path = route(platform_, device(message.from), device(message.to));
    traffic_.first.push_back(traffic_.crossed.size());
    cross(channel(message, path), message);
    for (const LinkId link : path)
      if (platform_.link(link).shared) cross(shared(link), message);
  }

  Traffic finish(std::vector<Message> messages) && {
    traffic_.first.push_back(traffic_.crossed.size());
    traffic_.messages = std::move(messages);
    return std::move(traffic_);
  }

 private:
  static bool devices_return(const Schedule& schedule, const Platform& platform) {
    std::vector<bool> seen(platform.devices.size());
    for (const Stage& stage : schedule.stages) {
      if (seen[stage.device.index()]) return true;
      seen[stage.device.index()] = true;
    }
    return false;
  }

  DeviceId device(StageId id) const { return schedule_.stages[id.index()].device; }

  void cross(std::size_t resource, const Message& message) {
    traffic_.resources[resource].load += message.wire;
    if (!message.gradient) traffic_.resources[resource].forward_load += message.wire;
    traffic_.crossed.push_back(resource);
  }

  /// Sorted edges bring the messages of one pair of stages together: only the latest channel of each direction can
  /// be meant again. Where devices have several stages, other pairs of stages share it.
  std::size_t channel(const Message& message, const Route& path) {
    if (devices_return_) {
      const auto [known, added] =
          channels_.emplace(std::pair(device(message.from), device(message.to)), traffic_.resources.size());
      if (added) add_channel(message, path);
      return known->second;
    }
    std::size_t& latest = latest_channel_[message.gradient ? 1 : 0];
    if (latest != none) {
      const auto& between = std::get<ChannelBetween>(traffic_.resources[latest].what);
      if (between.from == message.from && between.to == message.to) return latest;
    }
    latest = traffic_.resources.size();
    add_channel(message, path);
    return latest;
  }

  void add_channel(const Message& message, const Route& path) {
    traffic_.resources.push_back({ChannelBetween{message.from, message.to}, path.bandwidth, path.latency, {}, {}});
  }

  std::size_t shared(LinkId link) {
    std::size_t& resource = resource_of_link_[link.index()];
    if (resource == none) {
      resource = traffic_.resources.size();
      traffic_.resources.push_back({link, platform_.link(link).bandwidth, {}, {}, {}});
    }
    return resource;
  }

  const Schedule& schedule_;
  const Platform& platform_;
  std::vector<std::size_t> resource_of_link_;
  std::size_t latest_channel_[2] = {none, none};
  const bool devices_return_;
  std::map<std::pair<DeviceId, DeviceId>, std::size_t> channels_;
  Traffic traffic_;
};

}  // namespace

Message message(const Schedule& schedule, const Graph& graph, std::size_t index, bool gradient) {
  const CutEdge& edge = schedule.edges[index];
  const Tensor& tensor = graph.tensor(edge.tensor);
  return {.edge = index,
          .gradient = gradient,
          .from = gradient ? edge.to : edge.from,
          .to = gradient ? edge.from : edge.to,
          .dense = bytes_of(tensor),
          .wire = wire_bytes(tensor, gradient ? edge.gradient : edge.activation)};
}

bool is_hand_over(const Schedule& schedule, const CutEdge& edge) {
  return schedule.stages[edge.from.index()].device == schedule.stages[edge.to.index()].device;
}

std::vector<Message> messages(const Schedule& schedule, const Graph& graph) {
  std::vector<Message> all;
  all.reserve(2 * schedule.edges.size());
  for (std::size_t i = 0; i < schedule.edges.size(); ++i) {
    if (is_hand_over(schedule, schedule.edges[i])) continue;
    all.push_back(message(schedule, graph, i, false));
    if (graph.tensor(schedule.edges[i].tensor).needs_gradient) all.push_back(message(schedule, graph, i, true));
  }
  return all;
}

Traffic traffic(const Schedule& schedule, const Graph& graph, const Platform& platform) {
  return traffic(schedule, platform, messages(schedule, graph));
}

Traffic traffic(const Schedule& schedule, const Platform& platform, std::vector<Message> all) {
  Collector collector(schedule, platform);
  for (const Message& each : all) collector.add(each);
  return std::move(collector).finish(std::move(all));
}

std::string describe(const Resource& resource, const Schedule& schedule, const Platform& platform) {
  const auto name = [&](StageId id) { return platform.device(schedule.stages[id.index()].device).name; };
  if (const auto* between = std::get_if<ChannelBetween>(&resource.what))
    return name(between->from) + " -> " + name(between->to);
  return "link " + platform.link(std::get<LinkId>(resource.what)).name;
}

}  // namespace fusion
