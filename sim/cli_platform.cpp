// fusion-sim platform check | import | export: platform files in and out.
#include <cstdio>

#include "core/base/file.h"
#include "core/platform/import_export.h"
#include "sim/cli.h"

namespace fusion::sim {
namespace {

struct Options {
  Output output;
  std::vector<std::string> files;
  std::string file, to;
  ImportOptions import;
};

/// Text to the file that was asked for, else to standard output.
void deliver(const std::string& text, const Options& options) {
  if (options.to.empty()) {
    std::fputs(text.c_str(), stdout);
    return;
  }
  write_text(options.to, text);
  note(options.output, "wrote " + options.to);
}

void check_platform(const Options& options) {
  const Platform platform = load_platform(options.file);
  const std::vector<std::string> lines = describe_platform(platform);
  if (options.output.json) return print(nlohmann::ordered_json{{"platform", platform.name}, {"findings", lines}});
  for (const std::string& line : lines) std::puts(line.c_str());
}

void import_platform(const Options& options) {
  const bool csv = options.files.size() == 1 && options.files.front().ends_with(".csv");
  deliver(csv ? import_csv(options.files.front(), options.import)
              : import_iperf3({options.files.begin(), options.files.end()}, options.import),
          options);
}

void add_check(CLI::App& parent) {
  CLI::App* command = parent.add_subcommand("check", "read a platform and say what it holds");
  const auto options = std::make_shared<Options>();
  command->add_option("file", options->file, "name or path of a platform")->required();
  add_output_flags(*command, options->output);
  command->callback([options] { check_platform(*options); });
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
  command->callback([options] { deliver(export_simgrid_xml(load_platform(options->file)), *options); });
}

}  // namespace

void declare_platform(CLI::App& app) {
  CLI::App* command = app.add_subcommand("platform", "check, import and export platform files");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  fusion-sim platform check testbed-3\n"
      "  fusion-sim platform import pairs.csv --gpu \"RTX 3080\" -o mine.toml\n"
      "  fusion-sim platform import a-b.json b-a.json -o mine.toml     two iperf3 -J results\n"
      "  fusion-sim platform export mine.toml -o mine.xml");
  add_check(*command);
  add_import(*command);
  add_export(*command);
}

}  // namespace fusion::sim
