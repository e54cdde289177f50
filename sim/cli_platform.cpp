// fusion-sim platform check | pairs | import | export | generate: platform files in and out.
#include <cstdio>

#include "core/platform/generate.h"
#include "core/platform/import_export.h"
#include "core/platform/world_regions.h"
#include "sim/cli.h"

namespace fusion::sim {
namespace {

struct Options {
  Output output;
  std::vector<std::string> files;
  std::string file, to;
  std::size_t devices = 0;  ///< 0: all
  ImportOptions import;
};

/// Text to the file that was asked for, else to standard output.
void deliver(const std::string& text, const std::string& to, const Output& output) {
  if (to.empty()) {
    std::fputs(text.c_str(), stdout);
    return;
  }
  cli::write(output, {{to, [&] { return text; }, ""}});
}

void check_platform(const Options& options) {
  const Platform platform = load_platform(options.file);
  const std::vector<std::string> lines = describe_platform(platform);
  if (options.output.json) return print(nlohmann::ordered_json{{"platform", platform.name}, {"findings", lines}});
  for (const std::string& line : lines) std::puts(line.c_str());
}

/// Calls `visit(from, to, route)` for every directed pair of devices.
template <class Visit>
void for_each_pair(const Platform& platform, Visit visit) {
  for (std::size_t from = 0; from < platform.devices.size(); ++from)
    for (std::size_t to = 0; to < platform.devices.size(); ++to)
      if (from != to)
        visit(platform.devices[from], platform.devices[to], route(platform, DeviceId(from), DeviceId(to)));
}

std::vector<std::string> link_names(const Platform& platform, const Route& path) {
  std::vector<std::string> names;
  for (const LinkId link : path) names.push_back(platform.link(link).name);
  return names;
}

nlohmann::ordered_json pairs_json(const Platform& platform) {
  using nlohmann::ordered_json;
  constexpr double bits = 8;
  ordered_json devices = ordered_json::array(), links = devices, pairs = devices;
  for (const Device& device : platform.devices) devices.push_back(device.name);
  for (const Link& link : platform.links)
    links.push_back({{"name", link.name},
                     {"bandwidth_bits_per_s", link.bandwidth.value * bits},
                     {"latency_s", link.latency.value},
                     {"shared", link.shared}});
  for_each_pair(platform, [&](const Device& from, const Device& to, const Route& path) {
    pairs.push_back({{"from", from.name},
                     {"to", to.name},
                     {"bandwidth_bits_per_s", path.bandwidth.value * bits},
                     {"latency_s", path.latency.value},
                     {"links", link_names(platform, path)}});
  });
  return {{"platform", platform.name}, {"devices", devices}, {"links", links}, {"pairs", pairs}};
}

Table pairs_table(const Platform& platform) {
  Table table({{"from"}, {"to"}, {"bandwidth", Align::right}, {"latency", Align::right}, {"crosses"}});
  for_each_pair(platform, [&](const Device& from, const Device& to, const Route& path) {
    std::string crossed;
    for (const std::string& name : link_names(platform, path)) crossed += (crossed.empty() ? "" : ", ") + name;
    table.add({from.name, to.name, format(path.bandwidth), format(path.latency), crossed});
  });
  return table;
}

void show_pairs(const Options& options) {
  Platform platform = load_platform(options.file);
  if (options.devices > 0) platform = first_devices(platform, options.devices);
  if (options.output.json) return print(pairs_json(platform));
  print(pairs_table(platform));
}

void import_platform(const Options& options) {
  cli::require_writable({options.to});
  const bool csv = options.files.size() == 1 && options.files.front().ends_with(".csv");
  deliver(csv ? import_csv(options.files.front(), options.import)
              : import_iperf3({options.files.begin(), options.files.end()}, options.import),
          options.to, options.output);
}

void add_check(CLI::App& parent) {
  CLI::App* command = parent.add_subcommand("check", "read a platform and say what it holds");
  const auto options = std::make_shared<Options>();
  command->add_option("file", options->file, "name or path of a platform")->required();
  add_output_flags(*command, options->output);
  command->callback([options] { check_platform(*options); });
}

void add_pairs(CLI::App& parent) {
  CLI::App* command =
      parent.add_subcommand("pairs", "bandwidth, latency and links from each device to each other one, as routed");
  const auto options = std::make_shared<Options>();
  command->add_option("file", options->file, "name or path of a platform")->required();
  command->add_option("--devices", options->devices, "the first so many devices only; default: all")
      ->type_name("NUMBER")
      ->check(CLI::PositiveNumber);
  add_output_flags(*command, options->output);
  command->callback([options] { show_pairs(*options); });
}

void add_import(CLI::App& parent) {
  CLI::App* command = parent.add_subcommand("import", "make a platform file of a CSV matrix or of iperf3 -J results");
  const auto options = std::make_shared<Options>();
  command
      ->add_option("files", options->files,
                   "one .csv with the columns from,to,bandwidth,latency and units in every value, or iperf3 -J results")
      ->required();
  command->add_option("-o,--output", options->to, "where to write it; default: standard output")->type_name("FILE");
  command->add_option("--name", options->import.name, "name of the platform")->capture_default_str();
  command->add_option("--gpu", options->import.gpu, "GPU of every host")->capture_default_str();
  add_quiet_flag(*command, options->output);
  command->callback([options] { import_platform(*options); });
}

void add_export(CLI::App& parent) {
  CLI::App* command = parent.add_subcommand("export", "write a platform as SimGrid XML");
  const auto options = std::make_shared<Options>();
  command->add_option("file", options->file, "name or path of a platform")->required();
  command->add_option("-o,--output", options->to, "where to write it; default: standard output")->type_name("FILE");
  add_quiet_flag(*command, options->output);
  command->callback([options] {
    cli::require_writable({options->to});
    deliver(export_simgrid_xml(load_platform(options->file)), options->to, options->output);
  });
}

struct GenerateOptions {
  Output output;
  std::string to;
  World world;
  std::string cluster_gpus = to_string(world.cluster_gpus), home_gpus = to_string(world.home_gpus);
  std::string cluster_uplink = to_string(world.cluster_uplink), home_uplink = to_string(world.home_uplink);
};

void generate(GenerateOptions options) {
  cli::require_writable({options.to});
  World& world = options.world;
  world.cluster_gpus = parse_gpu_mix("cluster-gpus", options.cluster_gpus);
  world.home_gpus = parse_gpu_mix("home-gpus", options.home_gpus);
  world.cluster_uplink = parse_bandwidth_range("cluster-uplink", options.cluster_uplink);
  world.home_uplink = parse_bandwidth_range("home-uplink", options.home_uplink);
  deliver(generate_platform(world), options.to, options.output);
}

std::string region_help() {
  std::string text = "where the sites are; default: all of";
  for (const std::string_view name : world_regions) text += " " + std::string(name);
  return text;
}

void add_generate(CLI::App& parent) {
  CLI::App* command = parent.add_subcommand("generate", "draw a platform of clusters and homes all over the world");
  const auto options = std::make_shared<GenerateOptions>();
  World& world = options->world;
  const auto add = [&](const char* flag, auto& value, const std::string& help, const char* type) {
    command->add_option(flag, value, help)->capture_default_str()->type_name(type);
  };
  add("--devices", world.devices, "how many, up to 1,000,000", "N");
  add("--home-share", world.home_share, "of the devices; the others are in clusters", "0..1");
  command->add_option("--regions", world.regions, region_help())->delimiter(',')->type_name("NAMES");
  add("--cluster-gpus", options->cluster_gpus, "GPUs of clusters, with weights", "MIX");
  add("--home-gpus", options->home_gpus, "GPUs of homes, with weights", "MIX");
  add("--cluster-uplink", options->cluster_uplink, "of a cluster, each way", "RANGE");
  add("--home-uplink", options->home_uplink, "of a home", "RANGE");
  add("--asymmetry", world.asymmetry, "downlink over uplink of a home, up to the fastest uplink", "X");
  add("--hosts", world.max_hosts, "most hosts of a cluster", "N");
  add("--seed", world.seed, "of every draw; the same seed gives the same file", "N");
  add("--name", world.name, "name of the platform", "TEXT");
  command->add_option("-o,--output", options->to, "where to write it; default: standard output")->type_name("FILE");
  add_quiet_flag(*command, options->output);
  command->footer(
      "Clusters come first in the file, so that --devices N of another command takes them first.\n"
      "Examples:\n"
      "  fusion-sim platform generate --devices 100000 --seed 7 -o world.toml\n"
      "  fusion-sim platform generate --devices 200 --home-share 1 --regions Ohio,Virginia --home-gpus \"RTX "
      "3080=3,RTX "
      "4090\" --home-uplink \"8 Mbps..100 Mbps\" -o homes.toml");
  command->callback([options] { generate(*options); });
}

}  // namespace

void declare_platform(CLI::App& app) {
  CLI::App* command = app.add_subcommand("platform", "check, list, import, export and generate platform files");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  fusion-sim platform check testbed-3\n"
      "  fusion-sim platform pairs testbed-3 --devices 4 --json\n"
      "  fusion-sim platform import pairs.csv --gpu \"RTX 3080\" -o mine.toml\n"
      "  fusion-sim platform import a-b.json b-a.json -o mine.toml     two iperf3 -J results\n"
      "  fusion-sim platform export mine.toml -o mine.xml\n"
      "  fusion-sim platform generate --devices 1000 --home-share 0.3 --seed 7 -o world.toml");
  add_check(*command);
  add_pairs(*command);
  add_import(*command);
  add_export(*command);
  add_generate(*command);
}

}  // namespace fusion::sim
