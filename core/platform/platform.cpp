#include "core/platform/platform.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/platform/groups.h"

namespace fusion {
namespace {

void cross(const Platform& platform, LinkId id, Route& route) {
  const Link& link = platform.link(id);
  route.links[route.num_links++] = id;
  route.latency += link.latency;
  route.bandwidth = std::min(route.bandwidth, link.bandwidth);
}

void leave(const Platform& platform, const std::optional<LinkPair>& links, Route& route) {
  if (links) cross(platform, links->out, route);
}

void enter(const Platform& platform, const std::optional<LinkPair>& links, Route& route) {
  if (links) cross(platform, links->in, route);
}

}  // namespace

std::size_t num_groups(const Platform& platform, LinkMatrix::Level level) {
  switch (level) {
    case LinkMatrix::Level::region:
      return platform.regions.size();
    case LinkMatrix::Level::site:
      return platform.sites.size();
    case LinkMatrix::Level::host:
      return platform.hosts.size();
    case LinkMatrix::Level::device:
      return platform.devices.size();
  }
  check(false, "unknown matrix level");
  return 0;
}

const std::string& group_name(const Platform& platform, LinkMatrix::Level level, std::size_t group) {
  switch (level) {
    case LinkMatrix::Level::region:
      return platform.regions[group];
    case LinkMatrix::Level::site:
      return platform.sites[group].name;
    case LinkMatrix::Level::host:
      return platform.hosts[group].name;
    case LinkMatrix::Level::device:
      break;
  }
  return platform.devices[group].name;
}

std::size_t group_of(const Platform& platform, LinkMatrix::Level level, DeviceId id) {
  const HostId host = platform.device(id).host;
  switch (level) {
    case LinkMatrix::Level::region:
      return platform.sites[platform.hosts[host.index()].site.index()].region->index();
    case LinkMatrix::Level::site:
      return platform.hosts[host.index()].site.index();
    case LinkMatrix::Level::host:
      return host.index();
    case LinkMatrix::Level::device:
      break;
  }
  return id.index();
}

std::optional<LinkId> matrix_entry(const Platform& platform, DeviceId from, DeviceId to) {
  if (!platform.matrix) return {};
  const auto level = platform.matrix->level;
  const HostId a = platform.device(from).host, b = platform.device(to).host;
  if (level == LinkMatrix::Level::region && platform.hosts[a.index()].site == platform.hosts[b.index()].site) return {};
  if (a == b && level != LinkMatrix::Level::device && platform.buses[from.index()]) return {};
  return platform.matrix
      ->entries[group_of(platform, level, from) * num_groups(platform, level) + group_of(platform, level, to)];
}

FlopsPerSecond GpuType::peak(DType dtype) const {
  switch (dtype) {
    case DType::fp32:
      return peak_fp32;
    case DType::fp16:
      return peak_fp16;
    case DType::bf16:
      return peak_bf16;
    case DType::int64:
      break;
  }
  check(false, "no operator computes in this type");
  return {};
}

Route route(const Platform& platform, DeviceId from, DeviceId to) {
  check(platform.buses.size() == platform.devices.size(), "a platform has one bus entry per device");
  Route route;
  route.bandwidth = BytesPerSecond(std::numeric_limits<double>::infinity());
  if (from == to) return route;
  const HostId host_a = platform.device(from).host, host_b = platform.device(to).host;
  const Host &a = platform.hosts[host_a.index()], &b = platform.hosts[host_b.index()];
  leave(platform, platform.buses[from.index()], route);
  if (host_a != host_b) leave(platform, a.nic, route);
  if (a.site != b.site) leave(platform, platform.sites[a.site.index()].uplink, route);
  if (const auto entry = matrix_entry(platform, from, to)) cross(platform, *entry, route);
  if (a.site != b.site) enter(platform, platform.sites[b.site.index()].uplink, route);
  if (host_a != host_b) enter(platform, b.nic, route);
  enter(platform, platform.buses[to.index()], route);
  check(route.num_links > 0, "two devices without a route");
  return route;
}

Seconds transfer_time(const Platform& platform, DeviceId from, DeviceId to, Bytes size) {
  const Route way = route(platform, from, to);
  return way.latency + size / way.bandwidth;
}

void set_bandwidth(Platform& platform, BytesPerSecond bandwidth) {
  std::vector<bool> inside(platform.links.size());  // of a host
  for (const auto& bus : platform.buses)
    if (bus) inside[bus->out.index()] = inside[bus->in.index()] = true;
  if (platform.matrix && platform.matrix->level >= LinkMatrix::Level::host) {
    const LinkMatrix& matrix = *platform.matrix;
    std::vector<std::size_t> host_of(num_groups(platform, matrix.level));
    for (std::size_t d = 0; d < platform.devices.size(); ++d)
      host_of[group_of(platform, matrix.level, DeviceId(d))] = platform.devices[d].host.index();
    for (std::size_t from = 0; from < host_of.size(); ++from)
      for (std::size_t to = 0; to < host_of.size(); ++to)
        if (const auto link = matrix.entries[from * host_of.size() + to]; link && host_of[from] == host_of[to])
          inside[link->index()] = true;
  }
  for (std::size_t l = 0; l < platform.links.size(); ++l)
    if (!inside[l]) platform.links[l].bandwidth = bandwidth;
}

}  // namespace fusion
