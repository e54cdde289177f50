// The reader of platform files. The format is documented in platforms/README.md.
#include <algorithm>
#include <functional>
#include <map>
#include <unordered_set>

#include "core/base/error.h"
#include "core/base/toml_file.h"
#include "core/platform/gpu_catalogue.h"
#include "core/platform/groups.h"
#include "core/platform/matrix_file.h"
#include "core/platform/names.h"
#include "core/platform/platform.h"
#include "core/platform/platform_list.h"

namespace fusion {
namespace {

constexpr std::int64_t max_devices = 1'000'000;
constexpr std::int64_t max_gpus_per_host = 1'024;

/// `{bandwidth = "1 Gbps", latency = "2 ms"}`
struct LinkSpec {
  BytesPerSecond bandwidth{};
  Seconds latency{};
  bool shared = true;
};

LinkSpec read_link(const TomlTable& table) {
  LinkSpec spec;
  spec.shared = table.boolean("shared", true);
  spec.bandwidth = table.bandwidth("bandwidth");
  spec.latency = table.latency("latency");
  table.reject_unknown();
  return spec;
}

std::optional<LinkSpec> read_optional_link(const TomlTable& owner, std::string_view key) {
  return owner.has(key) ? std::optional(read_link(owner.table(key))) : std::nullopt;
}

std::int64_t read_count(const TomlTable& table, std::string_view key, std::int64_t largest) {
  const std::int64_t count = table.integer(key, 1);
  if (count >= 1 && count <= largest) return count;
  throw table.error(key, std::to_string(count) + " is out of range; write 1 to " + std::to_string(largest));
}

std::string read_name(const TomlTable& table, std::string_view key = "name") {
  std::string name = table.string(key);
  if (!is_name(name)) throw table.error(key, not_a_name(name));
  return name;
}

/// One [[site.host]] and one [[site]], which may stand for many.
struct HostSpec {
  TomlTable table;
  std::string name;
  bool numbered = false;
  std::int64_t count = 1, num_gpus = 1;
  std::optional<LinkSpec> bus, network;
  GpuId gpu;
};

struct SiteSpec {
  TomlTable table;
  std::string name;
  bool numbered = false;
  std::int64_t count = 1;
  std::optional<RegionId> region;
  std::optional<LinkSpec> uplink, downlink;
  std::vector<HostSpec> hosts;
};

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : root_(load_toml(path)) { platform_.file = path; }

  Platform read() {
    platform_.name = read_name(root_);
    platform_.description = root_.string("description", "");
    root_.string("source", "");
    const auto local_gpus = read_gpus(root_);
    const auto sites = root_.tables("site");
    const bool has_matrix = root_.has("matrix");
    root_.reject_unknown();
    fill_catalogue(local_gpus);
    if (sites.empty())
      throw root_.error("site", "is missing; a platform has at least one [[site]] with a [[site.host]]");
    for (const auto& site : sites) add_sites(read_site(site));
    if (has_matrix) read_matrix(root_.table("matrix"), platform_);
    check_regions();
    check_buses_and_diagonal();
    check_routes();
    return std::move(platform_);
  }

 private:
  void fill_catalogue(const std::vector<GpuType>& local) {
    for (auto& gpu : gpu_catalogue()) catalogue_.insert_or_assign(gpu.name, gpu);
    for (const auto& gpu : local) catalogue_.insert_or_assign(gpu.name, gpu);
  }

  SiteSpec read_site(const TomlTable& table) {
    SiteSpec spec;
    spec.table = table;
    spec.numbered = table.has("count");
    spec.count = read_count(table, "count", max_devices);
    spec.uplink = read_optional_link(table, "uplink");
    spec.downlink = read_optional_link(table, "downlink");
    const auto network = read_optional_link(table, "network");
    const auto hosts = table.tables("host");
    if (table.has("region")) spec.region = region_id(read_name(table, "region"));
    spec.name = read_name(table);
    table.reject_unknown();
    if (spec.uplink && !spec.downlink) throw table.error("uplink", "has no downlink beside it");
    if (spec.downlink && !spec.uplink) throw table.error("downlink", "has no uplink beside it");
    if (hosts.empty()) throw table.error("host", "is missing; a site has at least one [[site.host]]");
    for (const auto& host : hosts) spec.hosts.push_back(read_host(host, network));
    return spec;
  }

  HostSpec read_host(const TomlTable& table, const std::optional<LinkSpec>& site_network) {
    HostSpec spec;
    spec.table = table;
    spec.numbered = table.has("count");
    spec.count = read_count(table, "count", max_devices);
    spec.num_gpus = read_count(table, "gpus", max_gpus_per_host);
    spec.bus = read_optional_link(table, "bus");
    spec.network = read_optional_link(table, "network");
    if (!spec.network) spec.network = site_network;
    spec.name = read_name(table);
    const std::string gpu_name = table.string("gpu");
    table.reject_unknown();
    spec.gpu = gpu_id(table, gpu_name);
    return spec;
  }

  RegionId region_id(const std::string& name) {
    const auto found = std::ranges::find(platform_.regions, name);
    const RegionId id(static_cast<std::size_t>(found - platform_.regions.begin()));
    if (found == platform_.regions.end()) platform_.regions.push_back(name);
    return id;
  }

  /// One [[site]]: `count` equal sites.
  void add_sites(const SiteSpec& spec) {
    for (const HostSpec& host : spec.hosts)
      if (static_cast<std::int64_t>(platform_.devices.size()) + spec.count * host.count * host.num_gpus > max_devices) {
        const bool by_site = spec.numbered && !host.numbered;
        throw(by_site ? spec.table : host.table)
            .error(by_site || host.numbered ? "count" : "gpus",
                   "makes more than " + std::to_string(max_devices) + " devices");
      }
    for (std::int64_t i = 0; i < spec.count; ++i) add_site(spec, spec.numbered ? std::to_string(i) : "");
  }

  void add_site(const SiteSpec& spec, const std::string& number) {
    const std::string name = spec.name + number;
    if (!site_names_.insert(name).second) throw spec.table.error("name", in_quotes(name) + " is the name of two sites");
    const SiteId id(platform_.sites.size());
    platform_.sites.push_back({name, {}, {}, spec.region});
    if (spec.uplink)
      platform_.sites.back().uplink =
          LinkPair{add_link(name + ".uplink", *spec.uplink), add_link(name + ".downlink", *spec.downlink)};
    site_tables_.push_back(spec.table);
    for (const HostSpec& host : spec.hosts) add_hosts(host, id, number);
  }

  /// One [[site.host]] of one site: `count` equal hosts. Where the site has a number, it is part of their names.
  void add_hosts(const HostSpec& spec, SiteId site, const std::string& number) {
    const std::string stem = spec.name + number + (spec.numbered && !number.empty() ? "." : "");
    for (std::int64_t i = 0; i < spec.count; ++i) {
      const std::string name = spec.numbered ? stem + std::to_string(i) : stem;
      const HostId id = add_host(spec.table, name, site);
      if (spec.network) platform_.hosts.back().nic = add_pair(name + ".nic", *spec.network);
      for (std::int64_t g = 0; g < spec.num_gpus; ++g)
        add_device(spec, spec.num_gpus > 1 ? name + ".gpu" + std::to_string(g) : name, id);
    }
  }

  HostId add_host(const TomlTable& table, const std::string& name, SiteId site) {
    if (!host_names_.insert(name).second) throw table.error("name", in_quotes(name) + " is the name of two hosts");
    const HostId id(platform_.hosts.size());
    platform_.hosts.push_back({name, site, {}, {}});
    platform_.sites[site.index()].hosts.push_back(id);
    host_tables_.push_back(table);
    return id;
  }

  void add_device(const HostSpec& spec, const std::string& name, HostId host) {
    if (!device_names_.insert(name).second)
      throw spec.table.error("name", in_quotes(name) + " is the name of two devices");
    platform_.hosts[host.index()].devices.push_back(DeviceId(platform_.devices.size()));
    platform_.devices.push_back({name, spec.gpu, host});
    platform_.buses.push_back(spec.bus ? std::optional(add_pair(name + ".bus", *spec.bus)) : std::nullopt);
  }

  GpuId gpu_id(const TomlTable& table, const std::string& name) {
    const auto entry = catalogue_.find(name);
    if (entry == catalogue_.end()) {
      std::vector<std::string_view> names;
      for (const auto& [known, gpu] : catalogue_) names.push_back(known);
      throw table.error("gpu", unknown_name(name, names));
    }
    const auto found = std::ranges::find(platform_.gpus, name, &GpuType::name);
    if (found != platform_.gpus.end()) return GpuId(static_cast<std::size_t>(found - platform_.gpus.begin()));
    platform_.gpus.push_back(entry->second);
    return GpuId(platform_.gpus.size() - 1);
  }

  LinkId add_link(const std::string& name, const LinkSpec& spec) {
    platform_.links.push_back({name, spec.bandwidth, spec.latency, spec.shared});
    return LinkId(platform_.links.size() - 1);
  }

  /// What leaves and what enters; each takes half of the latency, so that two of a kind take all of it.
  LinkPair add_pair(const std::string& name, LinkSpec spec) {
    spec.latency = spec.latency / 2;
    const LinkId out = add_link(name + ".out", spec);
    return {out, add_link(name + ".in", spec)};
  }

  /// Does the diagonal of the matrix serve the pairs inside the groups of `level` or of a larger kind?
  bool diagonal_serves(LinkMatrix::Level level) const {
    const auto& matrix = platform_.matrix;
    return matrix && matrix->level != LinkMatrix::Level::region && matrix->level <= level &&
           matrix->entries.front().has_value();
  }

  void check_regions() const {
    if (platform_.matrix && platform_.matrix->level == LinkMatrix::Level::region) return;
    for (std::size_t s = 0; s < platform_.sites.size(); ++s)
      if (platform_.sites[s].region)
        throw site_tables_[s].error("region", "means nothing here: there is no [matrix] with level = \"region\"");
  }

  void check_buses_and_diagonal() const {
    if (!diagonal_serves(LinkMatrix::Level::host) || platform_.matrix->level != LinkMatrix::Level::host) return;
    for (std::size_t d = 0; d < platform_.devices.size(); ++d)
      if (platform_.buses[d])
        throw host_tables_[platform_.devices[d].host.index()].error(
            "bus", "serves the same pairs as the diagonal of the matrix; drop it, or set matrix.diagonal = false");
  }

  /// Every pair of devices has a link, judged group by group.
  void check_routes() const {
    using enum LinkMatrix::Level;
    const auto& matrix = platform_.matrix;
    if (platform_.sites.size() > 1 && !matrix) check_uplinks([](const Site&) { return true; });
    if (matrix && matrix->level == region && !matrix->entries.front())
      check_uplinks(
          [&](const Site& place) { return std::ranges::count(platform_.sites, place.region, &Site::region) > 1; });
    const bool matrix_joins_hosts = matrix && (matrix->level >= LinkMatrix::Level::host || diagonal_serves(site));
    for (const Site& place : platform_.sites)
      if (place.hosts.size() > 1 && !matrix_joins_hosts) check_networks(place);
    const bool matrix_joins_devices = matrix && (matrix->level == device || diagonal_serves(host));
    if (!matrix_joins_devices) check_buses();
  }

  /// Sites that only uplinks join to their neighbours have one.
  void check_uplinks(const std::function<bool(const Site&)>& needs_one) const {
    for (std::size_t s = 0; s < platform_.sites.size(); ++s)
      if (const Site& place = platform_.sites[s]; !place.uplink && needs_one(place))
        throw site_tables_[s].error("uplink", "is missing; without uplink and downlink nothing joins site " +
                                                  in_quotes(place.name) + " to the others");
  }

  void check_networks(const Site& site) const {
    for (const HostId id : site.hosts)
      if (!platform_.hosts[id.index()].nic)
        throw host_tables_[id.index()].error(
            "network", "is missing here and in site " + in_quotes(site.name) + "; nothing joins host " +
                           in_quotes(platform_.hosts[id.index()].name) + " to the others");
  }

  void check_buses() const {
    for (std::size_t h = 0; h < platform_.hosts.size(); ++h) {
      const auto& devices = platform_.hosts[h].devices;
      if (devices.size() > 1 && !platform_.buses[devices.front().index()])
        throw host_tables_[h].error("bus", "is missing; nothing joins the " + std::to_string(devices.size()) +
                                               " devices of host " + in_quotes(platform_.hosts[h].name));
    }
  }

  TomlTable root_;
  Platform platform_;
  std::map<std::string, GpuType> catalogue_;
  std::unordered_set<std::string> site_names_, host_names_, device_names_;  ///< asked only whether they hold a name
  std::vector<TomlTable> site_tables_, host_tables_;                        ///< per site and host, for messages
};

}  // namespace

Platform load_platform(const std::string& name_or_path) { return Reader(platform_path(name_or_path)).read(); }

}  // namespace fusion
