#include "core/platform/generate.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <compare>
#include <map>
#include <random>

#include "core/base/error.h"
#include "core/platform/names.h"
#include "core/platform/platform.h"
#include "core/platform/toml_text.h"
#include "core/platform/world_regions.h"

namespace fusion {
namespace {

constexpr std::int64_t max_devices = 1'000'000, most_hosts = 10'000;
constexpr std::size_t num_rungs = 8;
constexpr double two_gpus_at_home = 1.0 / 8;

// What the file says of each rung: a slow line at home is a long one too (copper, cable, fibre).
constexpr std::array<std::string_view, num_rungs> home_latency = {"25 ms", "20 ms", "15 ms", "12 ms",
                                                                  "10 ms", "8 ms",  "5 ms",  "3 ms"};
constexpr std::string_view cluster_latency = "0.5 ms";
constexpr std::array<std::string_view, 3> cluster_networks = {R"({bandwidth = "10 Gbps", latency = "0.1 ms"})",
                                                              R"({bandwidth = "25 Gbps", latency = "50 us"})",
                                                              R"({bandwidth = "100 Gbps", latency = "20 us"})"};
constexpr std::string_view bus = R"({bandwidth = "100 Gbps", latency = "10 us"})";  // PCIe 4
constexpr std::array<std::int64_t, 3> gpus_per_host = {2, 4, 8};

/// What all sites of one entry of the file have in common.
struct SiteKind {
  bool home = false;
  std::size_t region = 0;  ///< index into the world's regions
  std::size_t gpu = 0;     ///< index into the mix
  std::int64_t hosts = 1, gpus = 1;
  std::size_t rung = 0, network = 0;
  auto operator<=>(const SiteKind&) const = default;
  std::int64_t devices() const { return hosts * gpus; }
};

/// Draws that are the same on every machine; the standard's distributions need not be.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  double unit() { return static_cast<double>(random_() >> 11) * 0x1p-53; }  ///< in [0, 1)
  std::size_t below(std::size_t n) {
    return std::min(n - 1, static_cast<std::size_t>(unit() * static_cast<double>(n)));
  }
  std::size_t one_of(const std::vector<GpuShare>& mix) {
    double total = 0;
    for (const GpuShare& share : mix) total += share.weight;
    double left = unit() * total;
    for (std::size_t i = 0; i < mix.size(); ++i)
      if ((left -= mix[i].weight) < 0) return i;
    return mix.size() - 1;
  }
  /// 1 to `most`, evenly by the logarithm: many small ones, few large ones.
  std::int64_t size(std::int64_t most) {
    return std::min(most, static_cast<std::int64_t>(std::pow(static_cast<double>(most) + 1, unit())));
  }

 private:
  std::mt19937_64 random_;
};

void require(bool condition, std::string_view key, const std::string& message) {
  if (!condition) throw InputError("", key, message);
}

void require_mix(std::string_view key, const std::vector<GpuShare>& mix) {
  require(!mix.empty(), key, "names no GPU");
  for (const GpuShare& share : mix) {
    require(share.weight > 0 && std::isfinite(share.weight), key,
            in_quotes(share.gpu) + " has the weight " + decimal(share.weight) + "; it must be above zero");
    find_gpu(share.gpu);
  }
}

/// Where the names of the regions stand in the tables.
std::vector<std::size_t> regions_of(const World& world) {
  std::vector<std::size_t> places;
  for (const std::string& name : world.regions) {
    const auto found = std::ranges::find(world_regions, name);
    if (found == world_regions.end()) throw InputError("", "regions", unknown_name(name, world_regions));
    const auto place = static_cast<std::size_t>(found - world_regions.begin());
    require(std::ranges::find(places, place) == places.end(), "regions", in_quotes(name) + " stands there twice");
    places.push_back(place);
  }
  for (std::size_t i = 0; world.regions.empty() && i < num_world_regions; ++i) places.push_back(i);
  return places;
}

void validate(const World& world) {
  const auto within = [](std::string_view key, std::int64_t value, std::int64_t most) {
    require(value >= 1 && value <= most, key,
            std::to_string(value) + " is out of range; write 1 to " + std::to_string(most));
  };
  require(is_name(world.name), "name", not_a_name(world.name));
  within("devices", world.devices, max_devices);
  within("hosts", world.max_hosts, most_hosts);
  require(world.home_share >= 0 && world.home_share <= 1, "home-share",
          decimal(world.home_share) + " is not a share; write a number from 0 to 1");
  require(world.asymmetry >= 1 && std::isfinite(world.asymmetry), "asymmetry",
          decimal(world.asymmetry) + " is out of range; write a number from 1 on");
  for (const auto& [key, range] :
       {std::pair("cluster-uplink", world.cluster_uplink), {"home-uplink", world.home_uplink}})
    require(range.low <= range.high, key, in_quotes(to_string(range)) + " runs downwards");
  require_mix("cluster-gpus", world.cluster_gpus);
  require_mix("home-gpus", world.home_gpus);
}

/// Kinds and how many sites of each, in the order in which they were drawn first: the first N devices lie in many
/// regions.
using Sites = std::vector<std::pair<SiteKind, std::int64_t>>;

Sites draw_sites(const World& world, std::size_t num_regions) {
  Sites sites;
  std::map<SiteKind, std::size_t> places;
  const auto add = [&](const SiteKind& kind) {
    const auto [found, is_new] = places.try_emplace(kind, sites.size());
    if (is_new) sites.emplace_back(kind, 0);
    ++sites[found->second].second;
  };
  Dice dice(world.seed);
  std::int64_t at_home = std::llround(world.home_share * static_cast<double>(world.devices));
  std::int64_t in_clusters = world.devices - at_home;
  while (in_clusters > 0) {
    SiteKind kind{.home = false, .region = dice.below(num_regions), .gpu = dice.one_of(world.cluster_gpus)};
    kind.gpus = std::min(gpus_per_host[dice.below(gpus_per_host.size())], in_clusters);
    kind.hosts = std::min(dice.size(world.max_hosts), in_clusters / kind.gpus);
    kind.rung = dice.below(num_rungs);
    kind.network = dice.below(cluster_networks.size());
    in_clusters -= kind.devices();
    add(kind);
  }
  while (at_home > 0) {
    SiteKind kind{.home = true, .region = dice.below(num_regions), .gpu = dice.one_of(world.home_gpus)};
    kind.gpus = dice.unit() < two_gpus_at_home && at_home > 1 ? 2 : 1;
    kind.rung = dice.below(num_rungs);
    at_home -= kind.devices();
    add(kind);
  }
  return sites;
}

/// As a person writes it, where that is exact.
std::string text_of(BytesPerSecond rate) {
  const std::string text = format(rate);
  return parse_bandwidth(text) == rate ? text : decimal(rate.value) + " B/s";
}

/// Two digits, as lines are sold.
BytesPerSecond rung_of(const BandwidthRange& range, std::size_t rung) {
  const double exact = range.low.value * std::pow(range.high / range.low, static_cast<double>(rung) / (num_rungs - 1));
  const double step = std::pow(10, std::floor(std::log10(exact * 8)) - 1);
  return std::clamp(BytesPerSecond(std::round(exact * 8 / step) * step / 8), range.low, range.high);
}

std::string link(std::string_view key, BytesPerSecond bandwidth, std::string_view latency) {
  return std::string(key) + " = {bandwidth = " + toml_string(text_of(bandwidth)) +
         ", latency = " + toml_string(latency) + "}\n";
}

/// Names end in a dot, so that no two of them meet when numbers follow.
std::string entry(const World& world, std::string_view region, const SiteKind& kind, std::int64_t count,
                  std::size_t index) {
  const std::string name = toml_string(std::string(region) + (kind.home ? ".h" : ".c") + std::to_string(index) + ".");
  const BandwidthRange& range = kind.home ? world.home_uplink : world.cluster_uplink;
  const BytesPerSecond up = rung_of(range, kind.rung);
  const BytesPerSecond down = kind.home ? std::max(up, std::min(up * world.asymmetry, range.high)) : up;
  const std::string_view latency = kind.home ? home_latency[kind.rung] : cluster_latency;
  std::string text =
      "\n[[site]]\nname = " + name + "\ncount = " + std::to_string(count) + "\nregion = " + toml_string(region) + "\n";
  if (kind.hosts > 1) text += "network = " + std::string(cluster_networks[kind.network]) + "\n";
  text += link("uplink", up, latency) + link("downlink", down, latency);
  text += "[[site.host]]\nname = " + name + "\n";
  if (kind.hosts > 1) text += "count = " + std::to_string(kind.hosts) + "\n";
  text += "gpu = " + toml_string((kind.home ? world.home_gpus : world.cluster_gpus)[kind.gpu].gpu) + "\n";
  if (kind.gpus > 1) text += "gpus = " + std::to_string(kind.gpus) + "\nbus = " + std::string(bus) + "\n";
  return text;
}

std::string rows(const RegionMatrix& matrix, const std::vector<std::size_t>& places) {
  std::string text = "[\n";
  for (const std::size_t from : places) {
    text += "  [";
    for (const std::size_t to : places) text += (to == places.front() ? "" : ", ") + decimal(matrix[from][to]);
    text += "],\n";
  }
  return text + "]\n";
}

std::string regions_table(const std::vector<std::size_t>& places) {
  std::string names;
  for (const std::size_t place : places) names += (names.empty() ? "" : ", ") + toml_string(world_regions[place]);
  return "\n[matrix]  # between sites of two regions; the diagonal, of one\nlevel = \"region\"\nnames = [" + names +
         "]\nbandwidth_gbps = " + rows(region_bandwidth_gbps, places) +
         "latency_ms = " + rows(region_latency_ms, places);
}

std::string head(const World& world, const Sites& sites) {
  std::int64_t clusters = 0, homes = 0, at_home = 0;
  for (const auto& [kind, count] : sites) {
    (kind.home ? homes : clusters) += count;
    if (kind.home) at_home += count * kind.devices();
  }
  const auto several = [](std::int64_t n, const std::string& noun) {
    return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
  };
  return "# Made by fusion-sim platform generate: everything here is drawn, but what joins the regions.\nname = " +
         toml_string(world.name) + "\ndescription = \"Generated, seed " + std::to_string(world.seed) + ": " +
         several(world.devices - at_home, "device") + " in " + several(clusters, "cluster") + ", " +
         std::to_string(at_home) + " in " + several(homes, "home") +
         "\"\nsource = \"links between regions as measured by DT-FM, arXiv 2206.01288\"\n";
}

}  // namespace

std::string generate_platform(const World& world) {
  validate(world);
  std::vector<std::size_t> places = regions_of(world);
  const auto sites = draw_sites(world, places.size());
  // A small world may leave regions empty, and the order of rows is that of the sites.
  std::vector<std::size_t> used;
  std::string text = head(world, sites);
  std::size_t index = 0;
  for (const auto& [kind, count] : sites) {
    const std::size_t place = places[kind.region];
    if (std::ranges::find(used, place) == used.end()) used.push_back(place);
    text += entry(world, world_regions[place], kind, count, index++);
  }
  return text + regions_table(used);
}

std::vector<GpuShare> parse_gpu_mix(std::string_view key, std::string_view text) {
  std::vector<GpuShare> mix;
  for (std::size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + 1) {
    end = text.find(',', begin);
    const std::string_view part = text.substr(begin, end == std::string_view::npos ? end : end - begin);
    const auto equals = part.find('=');
    GpuShare share{std::string(part.substr(0, equals)), 1};
    if (equals != std::string_view::npos) {
      const std::string_view number = part.substr(equals + 1);
      const auto [stop, error] = std::from_chars(number.begin(), number.end(), share.weight);
      if (error != std::errc{} || stop != number.end())
        throw InputError("", key, in_quotes(part) + " has no weight; write it like \"T4=2\"");
    }
    mix.push_back(std::move(share));
  }
  return mix;
}

BandwidthRange parse_bandwidth_range(std::string_view key, std::string_view text) {
  const auto dots = text.find("..");
  try {
    const BytesPerSecond low = parse_bandwidth(text.substr(0, dots));
    return {low, dots == std::string_view::npos ? low : parse_bandwidth(text.substr(dots + 2))};
  } catch (const std::invalid_argument& reason) {
    throw InputError("", key, reason.what());
  }
}

std::string to_string(const std::vector<GpuShare>& mix) {
  std::string text;
  for (const auto& [gpu, weight] : mix)
    text += (text.empty() ? "" : ",") + gpu + (weight == 1 ? "" : "=" + decimal(weight));
  return text;
}

std::string to_string(const BandwidthRange& range) { return format(range.low) + ".." + format(range.high); }

}  // namespace fusion
