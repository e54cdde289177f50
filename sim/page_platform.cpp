// A platform for the page: what a message alone gets between any two devices, and any two sites.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/page.h"

namespace fusion::sim {
namespace {

using Json = nlohmann::ordered_json;

/// Something with a name, that messages leave from its first device and reach at its last: inside a site of several
/// devices they cross its network.
struct Place {
  std::string name, group;
  DeviceId first, last;
};

Json view_of(const Platform& platform, const std::string& title, const std::vector<Place>& places) {
  Json view = {{"title", title}, {"names", Json::array()}, {"groups", Json::array()}};
  for (const Place& place : places) {
    view["names"].push_back(place.name);
    view["groups"].push_back(place.group);
  }
  Json bandwidths = Json::array(), latencies = Json::array();
  for (const Place& from : places)
    for (const Place& to : places) {
      const bool itself = from.first == to.last;
      const Route way = route(platform, from.first, to.last);
      bandwidths.push_back(itself ? Json(nullptr) : Json(way.bandwidth.value * 8));
      latencies.push_back(itself ? Json(nullptr) : Json(way.latency.value));
    }
  view["bits_per_s"] = std::move(bandwidths);
  view["latency_s"] = std::move(latencies);
  return view;
}

std::vector<Place> sites_of(const Platform& platform) {
  std::vector<Place> places;
  for (const Site& site : platform.sites) {
    if (site.hosts.empty()) continue;
    const Host &first = platform.hosts[site.hosts.front().index()], &last = platform.hosts[site.hosts.back().index()];
    if (first.devices.empty() || last.devices.empty()) continue;
    places.push_back({site.name, "", first.devices.front(), last.devices.back()});
  }
  return places;
}

std::vector<Place> devices_of(const Platform& platform) {
  std::vector<Place> places;
  for (std::size_t d = 0; d < platform.devices.size(); ++d) {
    const Host& host = platform.hosts[platform.devices[d].host.index()];
    places.push_back({platform.devices[d].name, platform.sites[host.site.index()].name, DeviceId(d), DeviceId(d)});
  }
  return places;
}

}  // namespace

Json page_platform(const Platform& platform) {
  constexpr std::size_t most = 64;
  Json views = Json::array();
  const std::vector<Place> sites = sites_of(platform);
  if (sites.size() > 1 && sites.size() <= most) views.push_back(view_of(platform, "sites", sites));
  if (platform.devices.size() <= most) views.push_back(view_of(platform, "devices", devices_of(platform)));
  return {{"name", platform.name}, {"devices", platform.devices.size()}, {"views", views}};
}

}  // namespace fusion::sim
