// fusion-sim: plan, simulate and compare the training of one network on geo-distributed GPUs.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/report/version.h"
#include "sim/cli.h"

namespace fusion::sim {
namespace {

int fail(ExitCode code, const std::string& message) {
  std::fflush(stdout);
  std::fprintf(stderr, "fusion-sim: %s\n", message.c_str());
  return static_cast<int>(code);
}

/// Names a user could have meant: the flags of the command that was reached, or the commands where none was.
std::vector<std::string> known_names(const CLI::App& app) {
  const auto reached = app.get_subcommands();
  if (!reached.empty()) return known_names(*reached.front());
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

/// CLI11 lists what it did not expect; a user wants to know what was nearest.
/// Precondition: something is left over.
std::string unexpected_argument(const CLI::App& app) {
  const std::vector<std::string> names = known_names(app);
  const std::string extra = app.remaining(true).front();
  const std::string flag = extra.substr(0, extra.find('='));
  return unknown_name(flag, std::vector<std::string_view>(names.begin(), names.end()));
}

/// --version on every command.
void give_version(CLI::App& app) {
  app.set_version_flag("--version", "fusion-sim " + std::string(version()));
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) give_version(*command);
}

int run(int argc, char** argv) {
  CLI::App app("Plan, simulate and compare the training of one network on geo-distributed GPUs.", "fusion-sim");
  app.footer(
      "Examples:\n"
      "  fusion-sim rank --model gpt2 --platform testbed-3            every policy, one table\n"
      "  fusion-sim plan --model gpt2 --platform testbed-3 -o s.json  the best placement, written down\n"
      "  fusion-sim simulate --plan s.json --timeline t.json          replay it; open t.json in Perfetto\n"
      "Exit codes: 0 done, 2 usage, 3 bad input, 4 infeasible, 5 runtime fault.");
  app.require_subcommand(1);
  for (const auto declare : {declare_rank, declare_sweep, declare_plan, declare_simulate, declare_estimate,
                             declare_compare, declare_platform, declare_lists})
    declare(app);
  give_version(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {
    return app.exit(request);  // --help, --version
  } catch (const CLI::ParseError& error) {
    if (!app.remaining(true).empty()) return fail(ExitCode::usage, unexpected_argument(app));
    return fail(ExitCode::usage, std::string(error.what()) + "; see --help");
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    return fail(ExitCode::runtime_fault, "standard output can't be written");
  return static_cast<int>(ExitCode::done);
}

int run_guarded(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const InputError& error) {
    return fail(ExitCode::bad_input, error.what());
  } catch (const Infeasible& error) {
    return fail(ExitCode::infeasible, error.what());
  } catch (const RuntimeFault& error) {
    return fail(ExitCode::runtime_fault, error.what());
  } catch (const std::bad_alloc&) {
    return fail(ExitCode::runtime_fault, "out of memory");
  } catch (const std::exception& error) {
    return fail(ExitCode::runtime_fault, std::string("internal error, please report it: ") + error.what());
  }
}

}  // namespace
}  // namespace fusion::sim

int main(int argc, char** argv) { return fusion::sim::run_guarded(argc, argv); }
