// fusion-exec: train a network as a plan says, on real devices.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/report/version.h"
#include "exec/cli.h"
#include "exec/ending.h"
#include "exec/stop_signal.h"
#include "exec/transport_mpi.h"

namespace fusion::exec {
namespace {

/// Under mpirun all ranks write to one terminal.
std::string program_name() {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank == nullptr ? "fusion-exec" : std::string("fusion-exec, rank ") + rank;
}

int fail(ExitCode code, const std::string& message) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s\n", program_name().c_str(), message.c_str());
  return static_cast<int>(code);
}

/// All ranks are given the same flags: one says what is wrong with them. Precondition: this process has not joined the
/// others yet.
int fail_with_peers(ExitCode code, const std::string& message) {
  if (!launched_by_mpi() || !mpi_missing().empty()) return fail(code, message);
  const auto transport = make_mpi_transport({.shapes = {}, .start = {.doing = "ending: " + message}});
  return transport->abort(code, message) ? static_cast<int>(code) : fail(code, message);
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

/// Precondition: something is left over.
std::string unexpected_argument(const CLI::App& app) {
  const std::vector<std::string> names = known_names(app);
  const std::string extra = app.remaining(true).front();
  return unknown_name(extra.substr(0, extra.find('=')), std::vector<std::string_view>(names.begin(), names.end()));
}

void give_version(CLI::App& app) {
  app.set_version_flag("--version", "fusion-exec " + std::string(version()));
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) give_version(*command);
}

int run(int argc, char** argv) {
  CLI::App app("Train one network on the devices of a plan, joined by whatever network there is.", "fusion-exec");
  app.footer(
      "Examples:\n"
      "  fusion-sim plan --model gpt2 --platform pair -o schedule.json\n"
      "  fusion-exec train --plan schedule.json --data text:book.txt --steps 10    all ranks as threads\n"
      "  fusion-exec launch --plan schedule.json -o run1 -- --data text:book.txt --steps 1000    how to start it with "
      "MPI\n"
      "Exit codes: 0 done, 2 usage, 3 bad input, 4 infeasible, 5 runtime fault, 6 peer lost.");
  app.require_subcommand(1);
  for (const auto declare : {declare_train, declare_launch, declare_profile, declare_probe, declare_lists})
    declare(app);
  give_version(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {
    return app.exit(request);  // --help, --version
  } catch (const CLI::ParseError& error) {
    if (!app.remaining(true).empty()) return fail_with_peers(ExitCode::usage, unexpected_argument(app));
    return fail_with_peers(ExitCode::usage, std::string(error.what()) + "; see --help");
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    return fail(ExitCode::runtime_fault, "standard output can't be written");
  return static_cast<int>(ExitCode::done);
}

int run_guarded(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "train") catch_stop_signals();  // a job may be stopped before it is up
  try {
    return run(argc, argv);
  } catch (const ToldByPeer& told) {
    return static_cast<int>(told.code);
  } catch (const std::exception& error) {
    const auto [code, message] = ending_of(error);
    return fail(code, message);
  }
}

}  // namespace
}  // namespace fusion::exec

int main(int argc, char** argv) { return fusion::exec::run_guarded(argc, argv); }
