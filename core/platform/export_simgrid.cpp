#include <array>
#include <charconv>

#include "core/base/error.h"
#include "core/platform/import_export.h"

namespace fusion {
namespace {

std::string attribute(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out + '"';
}

/// `value` with its unit, all digits kept: SimGrid's own default units differ from ours, so each number names its own.
std::string attribute(double value, std::string_view unit) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return attribute(std::string(digits.data(), end) + std::string(unit));
}

std::string property(std::string_view name, std::string_view value) {
  return "      <prop id=" + attribute(name) + " value=" + attribute(value) + "/>\n";
}

/// The speed is what matrix products sustain in fp32.
std::string host(const Platform& platform, DeviceId id) {
  const GpuType& gpu = platform.gpu_of(id);
  return "    <host id=" + attribute(platform.device(id).name) +
         " speed=" + attribute(gpu.peak_fp32.value * gpu.sustained_flops, "f") + ">\n" + property("gpu", gpu.name) +
         property("memory_bytes", std::to_string(gpu.memory.value)) + "    </host>\n";
}

std::string link(const Link& link) {
  return "    <link id=" + attribute(link.name) + " bandwidth=" + attribute(link.bandwidth.value, "Bps") +
         " latency=" + attribute(link.latency.value, "s") +
         " sharing_policy=" + attribute(link.shared ? "SHARED" : "FATPIPE") + "/>\n";
}

void add_route(const Platform& platform, DeviceId from, DeviceId to, std::string& text) {
  text += "    <route src=" + attribute(platform.device(from).name) + " dst=" + attribute(platform.device(to).name) +
          " symmetrical=\"NO\">";
  for (const LinkId id : route(platform, from, to)) text += "<link_ctn id=" + attribute(platform.link(id).name) + "/>";
  text += "</route>\n";
}

}  // namespace

std::string export_simgrid_xml(const Platform& platform) {
  constexpr std::size_t most_devices = 1'024;
  const std::size_t n = platform.devices.size();
  if (n > most_devices)
    throw InputError(platform.name, "devices",
                     std::to_string(n) + " devices need " + std::to_string(n * (n - 1)) +
                         " explicit routes; export at most " + std::to_string(most_devices) + " of them (--devices)");
  std::string text =
      "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
      "<platform version=\"4.1\">\n  <zone id=" +
      attribute(platform.name) + " routing=\"Full\">\n";
  for (std::size_t d = 0; d < n; ++d) text += host(platform, DeviceId(d));
  for (const Link& each : platform.links) text += link(each);
  for (std::size_t from = 0; from < n; ++from)
    for (std::size_t to = 0; to < n; ++to)
      if (from != to) add_route(platform, DeviceId(from), DeviceId(to), text);
  return text + "  </zone>\n</platform>\n";
}

}  // namespace fusion
