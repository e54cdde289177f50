#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/platform/groups.h"
#include "core/platform/platform.h"

namespace fusion {
namespace {

/// Old ids to new ones, for the things that stay, in their old order.
template <class Id>
class Renumbering {
 public:
  explicit Renumbering(std::size_t num_old) : kept_(num_old, false), new_(num_old) {}

  void keep(Id id) { kept_[id.index()] = true; }
  void keep(const std::optional<LinkPair>& pair) {
    if (pair) keep(pair->out), keep(pair->in);
  }
  bool kept(std::size_t old) const { return kept_[old]; }
  Id operator()(Id old) const { return new_[old.index()]; }
  std::optional<LinkPair> operator()(const std::optional<LinkPair>& pair) const {
    return pair ? std::optional(LinkPair{(*this)(pair->out), (*this)(pair->in)}) : std::nullopt;
  }

  /// Numbers what stays and returns those elements of `all`.
  template <class T>
  std::vector<T> finish(const std::vector<T>& all) {
    std::vector<T> left;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!kept_[i]) continue;
      new_[i] = Id(left.size());
      left.push_back(all[i]);
    }
    return left;
  }

 private:
  std::vector<bool> kept_;
  std::vector<Id> new_;
};

/// Indices of the matrix rows that stay.
std::vector<std::size_t> kept_groups(const Platform& platform, const std::vector<DeviceId>& devices) {
  std::vector<bool> kept(num_groups(platform, platform.matrix->level), false);
  for (const DeviceId id : devices) kept[group_of(platform, platform.matrix->level, id)] = true;
  std::vector<std::size_t> groups;
  for (std::size_t g = 0; g < kept.size(); ++g)
    if (kept[g]) groups.push_back(g);
  return groups;
}

std::optional<LinkMatrix> kept_rows(const Platform& platform, const std::vector<DeviceId>& devices) {
  if (!platform.matrix) return {};
  LinkMatrix matrix{platform.matrix->level, {}};
  const auto groups = kept_groups(platform, devices);
  const std::size_t n = num_groups(platform, matrix.level);
  for (const std::size_t from : groups)
    for (const std::size_t to : groups) matrix.entries.push_back(platform.matrix->entries[from * n + to]);
  return matrix;
}

void drop_other_devices(Platform& platform, const std::vector<DeviceId>& stay) {
  Renumbering<DeviceId> devices(platform.devices.size());
  for (const DeviceId id : stay) devices.keep(id);
  platform.matrix = kept_rows(platform, stay);
  for (Host& host : platform.hosts) std::erase_if(host.devices, [&](DeviceId id) { return !devices.kept(id.index()); });
  platform.devices = devices.finish(platform.devices);
  platform.buses = devices.finish(platform.buses);
  for (Host& host : platform.hosts)
    for (DeviceId& id : host.devices) id = devices(id);
}

void drop_unused_gpus(Platform& platform) {
  Renumbering<GpuId> gpus(platform.gpus.size());
  for (const Device& device : platform.devices) gpus.keep(device.gpu);
  platform.gpus = gpus.finish(platform.gpus);
  for (Device& device : platform.devices) device.gpu = gpus(device.gpu);
}

void drop_empty_places(Platform& platform) {
  Renumbering<HostId> hosts(platform.hosts.size());
  Renumbering<SiteId> sites(platform.sites.size());
  for (const Device& device : platform.devices) {
    hosts.keep(device.host);
    sites.keep(platform.hosts[device.host.index()].site);
  }
  for (Site& site : platform.sites) std::erase_if(site.hosts, [&](HostId id) { return !hosts.kept(id.index()); });
  platform.hosts = hosts.finish(platform.hosts);
  platform.sites = sites.finish(platform.sites);
  for (Device& device : platform.devices) device.host = hosts(device.host);
  Renumbering<RegionId> regions(platform.regions.size());
  for (const Site& site : platform.sites)
    if (site.region) regions.keep(*site.region);
  platform.regions = regions.finish(platform.regions);
  for (Site& site : platform.sites)
    if (site.region) site.region = regions(*site.region);
  for (Host& host : platform.hosts) host.site = sites(host.site);
  for (Site& site : platform.sites)
    for (HostId& host : site.hosts) host = hosts(host);
}

void drop_unused_links(Platform& platform) {
  Renumbering<LinkId> links(platform.links.size());
  for (const auto& bus : platform.buses) links.keep(bus);
  for (const Host& host : platform.hosts) links.keep(host.nic);
  for (const Site& site : platform.sites) links.keep(site.uplink);
  if (platform.matrix)
    for (const auto& entry : platform.matrix->entries)
      if (entry) links.keep(*entry);
  platform.links = links.finish(platform.links);
  for (auto& bus : platform.buses) bus = links(bus);
  for (Host& host : platform.hosts) host.nic = links(host.nic);
  for (Site& site : platform.sites) site.uplink = links(site.uplink);
  if (!platform.matrix) return;
  for (auto& entry : platform.matrix->entries)
    if (entry) entry = links(*entry);
}

}  // namespace

Platform first_devices(const Platform& platform, std::size_t n) {
  if (n == 0) throw InputError(platform.name, "devices", "0 devices asked for; at least 1 is needed");
  if (n > platform.devices.size())
    throw InputError(platform.name, "devices",
                     std::to_string(n) + " devices asked for, it has " + std::to_string(platform.devices.size()));
  std::vector<DeviceId> first;
  for (std::size_t d = 0; d < n; ++d) first.emplace_back(d);
  return only_devices(platform, first);
}

Platform only_devices(const Platform& platform, const std::vector<DeviceId>& devices) {
  Platform smaller = platform;
  drop_other_devices(smaller, devices);
  drop_unused_gpus(smaller);
  drop_empty_places(smaller);
  drop_unused_links(smaller);
  return smaller;
}

}  // namespace fusion
