#include "sim/cli.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "core/plan/run_config.h"

namespace fusion::sim {

void add_output_flags(CLI::App& command, Output& output) {
  command.add_flag("--json", output.json, "print JSON instead of a table");
  command.add_flag("--quiet", output.quiet, "nothing on standard error but errors");
}

void print(const Table& table) {
  const bool colour = ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  std::fputs(table.render(colour).c_str(), stdout);
}

void print(const nlohmann::ordered_json& json) { std::puts(json.dump(2).c_str()); }

void note(const Output& output, const std::string& line) {
  if (!output.quiet) std::fprintf(stderr, "%s\n", line.c_str());
}

void RunFlags::declare(CLI::App& command, const RunOption& option) {
  const std::string flag = "--" + std::string(option.key), help(option.help);
  const auto keep = [this, key = std::string(option.key)](const std::string& value) {
    given_.emplace_back(key, value);
  };
  if (option.is_flag)
    command.add_flag_callback(
        flag, [keep] { keep("true"); }, help);
  else
    command.add_option_function<std::string>(flag, keep, help)
        ->type_name(std::string(option.value_name))
        ->default_str(option.get(RunConfig{}));
}

void RunFlags::declare_all_but(CLI::App& command, const std::vector<std::string_view>& left_out) {
  command.add_option("--config", config_file_, "run.toml with any of the options below; flags win")->type_name("FILE");
  for (const RunOption& option : run_options())
    if (std::find(left_out.begin(), left_out.end(), option.key) == left_out.end()) declare(command, option);
}

void RunFlags::declare_only(CLI::App& command, const std::vector<std::string_view>& keys) {
  for (const RunOption& option : run_options())
    if (std::find(keys.begin(), keys.end(), option.key) != keys.end()) declare(command, option);
}

RunConfig RunFlags::resolve() const {
  RunConfig config = config_file_.empty() ? RunConfig{} : load_run_config(config_file_);
  for (const auto& [key, value] : given_) set_run_option(config, key, value);
  return config;
}

}  // namespace fusion::sim
