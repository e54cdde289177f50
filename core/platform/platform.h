// What the network trains on: devices (GPUs) on hosts on sites, and directed links with their sharing.
//
//            device ─bus─▶ host ─NIC─▶ site ─uplink─▶ (core, or the entry of a site-to-site matrix) ─downlink─▶ …
//
// A route is a list of links; a message takes the latency of all of them and the bandwidth of the narrowest. A link
// that is `shared` divides its bandwidth among the messages on it; one that is not gives each message all of it (a
// measured matrix of pairs says what each pair gets by itself).
//
// Routes are computed from the place of the two devices, never stored per pair: memory grows with devices, and with the
// square of sites only where a matrix gives that square. Many sites that lie in a few regions take a matrix of regions.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/graph/graph.h"

namespace fusion {

/// Times of an op, of one micro-batch in fp32, measured on a type of GPU (fusion-exec profile).
struct MeasuredOp {
  std::string name;                         ///< of the op, "h.0.attn.c_attn"
  Flops forward_flops{}, backward_flops{};  ///< tell networks apart whose ops have the same names
  Seconds forward{}, backward{};
  bool operator==(const MeasuredOp&) const = default;
};

/// How quick ops of one kind are beside what the roofline says of them.
struct KindSpeed {
  std::string kind;  ///< "conv2d", as in ops.h
  double speed = 1;  ///< above 0
  bool operator==(const KindSpeed&) const = default;
};

/// One GPU type of the catalogue (platforms/gpus.toml). Peak rates are the vendor's dense figures.
struct GpuType {
  std::string name;
  FlopsPerSecond peak_fp32{}, peak_fp16{}, peak_bf16{};  ///< bf16 equals fp32 where the type has no bf16 units
  Bytes memory{};
  BytesPerSecond memory_bandwidth{};
  double sustained_flops = 0;           ///< lambda in (0, 1]: share of the peak that matrix products reach
  double sustained_bandwidth = 0;       ///< mu in (0, 1]
  Seconds launch_overhead{};            ///< c: per operator
  std::string source;                   ///< where the figures come from
  BytesPerSecond update_bandwidth{};    ///< memory traffic of an optimizer step; 0: as that of other operators
  std::vector<KindSpeed> kind_speed{};  ///< by kind; 1 where it has none
  std::vector<MeasuredOp> measured{};   ///< by name; other ops follow from the figures above
  FlopsPerSecond peak(DType) const;
  bool operator==(const GpuType&) const = default;
};

struct Device {
  std::string name;  ///< unique: "a0.gpu1", or the host's name where it has one device
  GpuId gpu;
  HostId host;
  bool operator==(const Device&) const = default;
};

struct Link {
  std::string name;  ///< "A.uplink", "a0.nic.out", "Oregon>Tokyo"
  BytesPerSecond bandwidth{};
  Seconds latency{};
  bool shared = true;
  bool operator==(const Link&) const = default;
};

/// A directed pair of links, as seen from the thing they belong to: `out` leaves it, `in` enters it.
struct LinkPair {
  LinkId out, in;
  bool operator==(const LinkPair&) const = default;
};

struct Host {
  std::string name;
  SiteId site;
  std::vector<DeviceId> devices;
  std::optional<LinkPair> nic;  ///< crossed by what leaves or enters the host
  bool operator==(const Host&) const = default;
};

struct Site {
  std::string name;
  std::vector<HostId> hosts;
  std::optional<LinkPair> uplink;       ///< out = uplink, in = downlink; crossed by what leaves or enters the site
  std::optional<RegionId> region = {};  ///< there where the matrix is one of regions
  bool operator==(const Site&) const = default;
};

/// Links between groups of devices by pair, entry [from * n + to]; the diagonal serves pairs inside one group. An entry
/// of regions joins two sites, so that its diagonal does not serve inside a site.
struct LinkMatrix {
  enum class Level { region, site, host, device };
  Level level = Level::site;
  std::vector<std::optional<LinkId>> entries;
  bool operator==(const LinkMatrix&) const = default;
};

struct Platform {
  std::string name;
  std::string description;
  std::filesystem::path file;  ///< where it was read from; empty when made in code
  std::vector<GpuType> gpus;
  std::vector<std::string> regions;  ///< names; none where no matrix is one of regions
  std::vector<Site> sites;
  std::vector<Host> hosts;
  std::vector<Device> devices;
  std::vector<Link> links;
  std::vector<std::optional<LinkPair>> buses;  ///< per device: its PCIe or NVLink lanes
  std::optional<LinkMatrix> matrix;

  const Device& device(DeviceId id) const { return devices[id.index()]; }
  const GpuType& gpu_of(DeviceId id) const { return gpus[devices[id.index()].gpu.index()]; }
  const Link& link(LinkId id) const { return links[id.index()]; }
  bool operator==(const Platform&) const = default;
};

/// The links a message crosses, in order. Empty from a device to itself.
struct Route {
  static constexpr std::size_t max_links = 8;
  std::array<LinkId, max_links> links{};
  std::size_t num_links = 0;
  Seconds latency{};           ///< sum
  BytesPerSecond bandwidth{};  ///< minimum, what one message gets alone; infinite from a device to itself
  auto begin() const { return links.begin(); }
  auto end() const { return links.begin() + static_cast<std::ptrdiff_t>(num_links); }
};

Route route(const Platform&, DeviceId from, DeviceId to);

/// Time of one message alone on its route: alpha + M / beta.
Seconds transfer_time(const Platform&, DeviceId from, DeviceId to, Bytes);

/// The first `n` devices and what they need. Throws InputError when there are fewer.
Platform first_devices(const Platform&, std::size_t n);

/// Gives every link between hosts this bandwidth; latencies, sharing and the buses inside hosts stay.
void set_bandwidth(Platform&, BytesPerSecond);

/// A name under platforms/ or a path. Throws InputError naming file, line, key, value.
/// The file format is documented in platforms/README.md.
Platform load_platform(const std::string& name_or_path);

/// Names that `load_platform` finds, with their descriptions, sorted.
struct PlatformRow {
  std::string name, description;
  std::size_t num_devices = 0;
};
std::vector<PlatformRow> list_platforms();

/// A catalogue entry by name ("RTX 4090"). Throws InputError with the nearest names.
GpuType find_gpu(const std::string& name);
std::vector<GpuType> gpu_catalogue();

/// Directory of the shipped platforms: FUSION_PLATFORMS if set, else the one beside the build or installation.
std::filesystem::path platforms_directory();

}  // namespace fusion
