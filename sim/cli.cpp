#include "sim/cli.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "core/base/file.h"

namespace fusion::sim {

void add_output_flags(CLI::App& command, Output& output) {
  command.add_flag("--json", output.json, "print JSON instead of a table");
  add_quiet_flag(command, output);
}

void add_quiet_flag(CLI::App& command, Output& output) {
  command.add_flag("--quiet", output.quiet, "nothing on standard error but errors");
}

void print(const Table& table) {
  const bool colour = ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  std::fputs(table.render(colour).c_str(), stdout);
}

void print(const nlohmann::ordered_json& json) { std::puts(json.dump(2).c_str()); }

void note(const Output& output, const std::string& line) {
  std::fflush(stdout);  // what was printed before stands before
  if (!output.quiet) std::fprintf(stderr, "%s\n", line.c_str());
}

void RunFlags::declare(CLI::App& command, const RunOption& option) {
  const std::string flag = "--" + std::string(option.key), help(option.help);
  const auto keep = [this, key = std::string(option.key)](const std::string& value) {
    given_.emplace_back(key, value);
  };
  if (option.kind == RunOption::Kind::flag)
    // With or without a value, so that a flag can take back what a --config file says.
    command
        .add_option_function<std::string>(
            flag, [keep](const std::string& value) { keep(value.empty() ? "true" : value); }, help)
        ->expected(0, 1)
        ->type_name("[true|false]");
  else
    command.add_option_function<std::string>(flag, keep, help)
        ->type_name(option.kind == RunOption::Kind::whole_number ? "N" : "TEXT")
        ->default_str(option.get(RunConfig{}));
}

void RunFlags::declare_all_but(CLI::App& command, const std::vector<std::string_view>& left_out) {
  command.add_option("--config", config_file_, "run.toml with any of the options below; flags win")->type_name("FILE");
  for (const RunOption& option : run_options())
    if (std::find(left_out.begin(), left_out.end(), option.key) == left_out.end()) declare(command, option);
}

void RunFlags::declare_only(CLI::App& command, const std::vector<std::string_view>& keys) {
  needs_platform_ = false;
  for (const RunOption& option : run_options())
    if (std::find(keys.begin(), keys.end(), option.key) != keys.end()) declare(command, option);
}

RunConfig RunFlags::resolve_partly() const {
  RunConfig config;
  if (!config_file_.empty()) load_run_config(config_file_, config);
  for (const auto& [key, value] : given_) set_option(config, key, value);
  return config;
}

RunConfig RunFlags::resolve() const {
  RunConfig config = resolve_partly();
  if (config.model.empty()) throw CLI::RequiredError("--model");
  if (needs_platform_ && config.platform.empty()) throw CLI::RequiredError("--platform");
  return config;
}

void write_config_beside(const std::filesystem::path& result, const RunConfig& config) {
  if (!is_replaceable(result)) return;
  std::filesystem::path path = result;
  write_text(path.replace_extension(".config.toml"), write_run_config(config));
}

}  // namespace fusion::sim
