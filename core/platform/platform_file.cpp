// The reader of platform files. The format is documented in platforms/README.md.
#include <algorithm>
#include <map>
#include <set>

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
  spec.latency = table.seconds("latency");
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

std::string read_name(const TomlTable& table) {
  std::string name = table.string("name");
  if (!is_name(name)) throw table.error("name", not_a_name(name));
  return name;
}

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
    for (const auto& site : sites) read_site(site);
    if (has_matrix) read_matrix(root_.table("matrix"), platform_);
    check_buses_and_diagonal();
    check_routes();
    return std::move(platform_);
  }

 private:
  void fill_catalogue(const std::vector<GpuType>& local) {
    for (auto& gpu : gpu_catalogue()) catalogue_.insert_or_assign(gpu.name, gpu);
    for (const auto& gpu : local) catalogue_.insert_or_assign(gpu.name, gpu);
  }

  void read_site(const TomlTable& table) {
    const auto uplink = read_optional_link(table, "uplink"), downlink = read_optional_link(table, "downlink");
    const auto network = read_optional_link(table, "network");
    const auto hosts = table.tables("host");
    const std::string name = read_name(table);
    table.reject_unknown();
    if (!site_names_.insert(name).second) throw table.error("name", in_quotes(name) + " is the name of two sites");
    if (uplink && !downlink) throw table.error("uplink", "has no downlink beside it");
    if (downlink && !uplink) throw table.error("downlink", "has no uplink beside it");
    if (hosts.empty()) throw table.error("host", "is missing; a site has at least one [[site.host]]");
    const SiteId id(platform_.sites.size());
    platform_.sites.push_back({name, {}, {}});
    if (uplink)
      platform_.sites.back().uplink =
          LinkPair{add_link(name + ".uplink", *uplink), add_link(name + ".downlink", *downlink)};
    site_tables_.push_back(table);
    for (const auto& host : hosts) read_host(host, id, network);
  }

  /// One [[site.host]]: `count` equal hosts.
  void read_host(const TomlTable& table, SiteId site, const std::optional<LinkSpec>& site_network) {
    const bool numbered = table.has("count");
    const std::int64_t count = read_count(table, "count", max_devices),
                       num_gpus = read_count(table, "gpus", max_gpus_per_host);
    const auto bus = read_optional_link(table, "bus");
    const auto own_network = read_optional_link(table, "network");
    const std::string name = read_name(table);
    const std::string gpu_name = table.string("gpu");
    table.reject_unknown();
    if (static_cast<std::int64_t>(platform_.devices.size()) + count * num_gpus > max_devices)
      throw table.error(numbered ? "count" : "gpus", "makes more than " + std::to_string(max_devices) + " devices");
    const GpuId gpu = gpu_id(table, gpu_name);
    for (std::int64_t i = 0; i < count; ++i) {
      const HostId id = add_host(table, numbered ? name + std::to_string(i) : name, site);
      if (const auto& network = own_network ? own_network : site_network)
        platform_.hosts.back().nic = add_pair(platform_.hosts.back().name + ".nic", *network);
      const std::string& host_name = platform_.hosts.back().name;
      for (std::int64_t g = 0; g < num_gpus; ++g)
        add_device(table, num_gpus > 1 ? host_name + ".gpu" + std::to_string(g) : host_name, id, gpu, bus);
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

  void add_device(const TomlTable& table, const std::string& name, HostId host, GpuId gpu,
                  const std::optional<LinkSpec>& bus) {
    if (!device_names_.insert(name).second) throw table.error("name", in_quotes(name) + " is the name of two devices");
    platform_.hosts[host.index()].devices.push_back(DeviceId(platform_.devices.size()));
    platform_.devices.push_back({name, gpu, host});
    platform_.buses.push_back(bus ? std::optional(add_pair(name + ".bus", *bus)) : std::nullopt);
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
    return matrix && matrix->level <= level && matrix->entries.front().has_value();
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
    if (platform_.sites.size() > 1 && !matrix)
      for (std::size_t s = 0; s < platform_.sites.size(); ++s)
        if (!platform_.sites[s].uplink)
          throw site_tables_[s].error("uplink", "is missing; without uplink and downlink nothing joins site " +
                                                    in_quotes(platform_.sites[s].name) + " to the others");
    const bool matrix_joins_hosts = matrix && (matrix->level != site || diagonal_serves(site));
    for (const Site& place : platform_.sites)
      if (place.hosts.size() > 1 && !matrix_joins_hosts) check_networks(place);
    const bool matrix_joins_devices = matrix && (matrix->level == device || diagonal_serves(host));
    if (!matrix_joins_devices) check_buses();
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
  std::set<std::string> site_names_, host_names_, device_names_;
  std::vector<TomlTable> site_tables_, host_tables_;  ///< per site and host, for messages
};

}  // namespace

Platform load_platform(const std::string& name_or_path) { return Reader(platform_path(name_or_path)).read(); }

}  // namespace fusion
