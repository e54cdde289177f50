#include <algorithm>

#include "core/base/error.h"
#include "core/platform/groups.h"
#include "core/platform/import_export.h"

namespace fusion {
namespace {

std::string count(std::size_t n, std::string_view noun) {
  return std::to_string(n) + " " + std::string(noun) + (n == 1 ? "" : "s");
}

std::string devices_line(const Platform& platform) {
  std::string text = count(platform.devices.size(), "device") + " on " + count(platform.hosts.size(), "host") + " of " +
                     count(platform.sites.size(), "site") + ":";
  for (std::size_t g = 0; g < platform.gpus.size(); ++g) {
    const auto n = std::ranges::count(platform.devices, GpuId(g), &Device::gpu);
    text += (g > 0 ? ", " : " ") + std::to_string(n) + " x " + platform.gpus[g].name + " (" +
            format(platform.gpus[g].memory) + ")";
  }
  return text;
}

std::string totals_line(const Platform& platform) {
  Bytes memory;
  FlopsPerSecond fp32;
  for (std::size_t d = 0; d < platform.devices.size(); ++d) {
    memory += platform.gpu_of(DeviceId(d)).memory;
    fp32 += platform.gpu_of(DeviceId(d)).peak_fp32;
  }
  return format(memory) + " of GPU memory, " + format(fp32) + " peak in fp32";
}

std::string links_line(const Platform& platform) {
  if (platform.links.empty()) return "no links";
  const auto [narrow, wide] = std::ranges::minmax_element(platform.links, {}, &Link::bandwidth);
  const auto [near, far] = std::ranges::minmax_element(platform.links, {}, &Link::latency);
  return count(platform.links.size(), "link") + ", " + format(narrow->bandwidth) + " to " + format(wide->bandwidth) +
         ", " + format(near->latency) + " to " + format(far->latency);
}

/// Is there a pair inside this group that the diagonal of the matrix serves?
bool diagonal_is_used(const Platform& platform, std::size_t group) {
  const auto has_pair_without_bus = [&](const Host& host) {
    return host.devices.size() > 1 && !platform.buses[host.devices.front().index()];
  };
  switch (platform.matrix->level) {
    case LinkMatrix::Level::device:
      return false;
    case LinkMatrix::Level::region:
      return std::ranges::count(platform.sites, std::optional(RegionId(group)), &Site::region) > 1;
    case LinkMatrix::Level::host:
      return has_pair_without_bus(platform.hosts[group]);
    case LinkMatrix::Level::site:
      break;
  }
  const Site& site = platform.sites[group];
  return site.hosts.size() > 1 || has_pair_without_bus(platform.hosts[site.hosts.front().index()]);
}

/// Per link, whether some route crosses it; from the structure, not by trying all pairs.
std::vector<bool> crossed_links(const Platform& platform) {
  std::vector<bool> crossed(platform.links.size(), true);
  const auto uncross = [&](const std::optional<LinkPair>& pair) {
    if (pair) crossed[pair->out.index()] = crossed[pair->in.index()] = false;
  };
  if (platform.devices.size() == 1) std::ranges::for_each(platform.buses, uncross);
  if (platform.hosts.size() == 1) uncross(platform.hosts.front().nic);
  if (platform.sites.size() == 1) uncross(platform.sites.front().uplink);
  if (!platform.matrix) return crossed;
  const std::size_t n = num_groups(platform, platform.matrix->level);
  for (std::size_t g = 0; g < n; ++g)
    if (const auto entry = platform.matrix->entries[g * n + g]; entry && !diagonal_is_used(platform, g))
      crossed[entry->index()] = false;
  return crossed;
}

}  // namespace

std::vector<std::string> describe_platform(const Platform& platform) {
  std::vector<std::string> lines = {devices_line(platform), totals_line(platform), links_line(platform)};
  const auto crossed = crossed_links(platform);
  std::size_t num_warnings = 0;
  for (std::size_t i = 0; i < crossed.size(); ++i) {
    if (crossed[i]) continue;
    lines.push_back("warning: no route crosses link " + in_quotes(platform.links[i].name));
    ++num_warnings;
  }
  lines.push_back(num_warnings == 0 ? "ok" : "ok, with " + count(num_warnings, "warning"));
  return lines;
}

}  // namespace fusion
