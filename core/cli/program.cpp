#include "core/cli/program.h"

#include <cstdio>
#include <string_view>

#include "core/report/version.h"

namespace fusion::cli {
namespace {

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

/// --version on every command.
void give_version(CLI::App& app, const std::string& line) {
  app.set_version_flag("--version", line);
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) give_version(*command, line);
}

int refuse(const ProgramRow& program, const std::string& message) {
  return program.refuse ? program.refuse(message) : tell_failure(program.name, {ExitCode::usage, message});
}

int run(const ProgramRow& program, int argc, char** argv) {
  CLI::App app(program.description, program.name);
  app.footer(program.footer);
  app.require_subcommand(1);
  for (const auto& declare : program.commands) declare(app);
  give_version(app, program.name + ' ' + std::string(version()));
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {
    return app.exit(request);  // --help, --version
  } catch (const CLI::ParseError& error) {
    return refuse(program, refusal_of(app, error));
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    return tell_failure(program.name, {ExitCode::runtime_fault, "standard output can't be written"});
  return static_cast<int>(ExitCode::done);
}

}  // namespace

std::string refusal_of(const CLI::App& app, const CLI::ParseError& error, const std::string& help) {
  const std::vector<std::string> left = app.remaining(true);
  // What follows "--" is for another program, and left because this one's own flags are wrong.
  if (left.empty() || left.front() == "--") return std::string(error.what()) + "; see " + help;
  const std::vector<std::string> names = known_names(app);
  const std::string flag = left.front().substr(0, left.front().find('='));
  return unknown_name(flag, std::vector<std::string_view>(names.begin(), names.end()));
}

int tell_failure(const std::string& speaker, const Ending& ending) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s\n", speaker.c_str(), ending.message.c_str());
  return static_cast<int>(ending.code);
}

int run_program(const ProgramRow& program, int argc, char** argv) {
  try {
    return run(program, argc, argv);
  } catch (const std::exception& error) {
    return program.end ? program.end(error) : tell_failure(program.name, ending_of(error));
  }
}

}  // namespace fusion::cli
