// Platforms in and out: measured matrices and iperf3 results become a platform file; a platform becomes SimGrid XML.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/platform/platform.h"

namespace fusion {

/// What an import can't know from the measurement.
struct ImportOptions {
  std::string name = "imported";
  std::string gpu = "RTX 3090";
};

/// A CSV of directed pairs with the header `from,to,bandwidth,latency` and units in every value
/// ("Oregon,Tokyo,0.523 Gbps,96 ms"). Returns the text of a platform file. Throws InputError naming file, line, column.
std::string import_csv(const std::filesystem::path&, const ImportOptions&);

/// One or more `iperf3 -J` results, each of one directed pair. Returns the text of a platform file.
std::string import_iperf3(const std::vector<std::filesystem::path>&, const ImportOptions&);

/// SimGrid 4.1 platform XML with the same hosts, links and routes.
std::string export_simgrid_xml(const Platform&);

/// One line per finding: "ok", warnings such as a link that no route uses, totals.
std::vector<std::string> describe_platform(const Platform&);

}  // namespace fusion
