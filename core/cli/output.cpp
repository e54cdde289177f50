#include "core/cli/output.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/report/report_tables.h"

namespace fusion::cli {

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

void print(const Report& report) {
  constexpr std::size_t busiest_channels = 10;
  print(device_table(report));
  if (!report.links.empty()) {
    std::puts("");
    print(channel_table(report, busiest_channels));
  }
  std::printf("\n%s\n", summary(report).c_str());
}

void note(const Output& output, const std::string& line) {
  std::fflush(stdout);  // what was printed before stands before
  if (!output.quiet) std::fprintf(stderr, "%s\n", line.c_str());
}

void require_writable(std::initializer_list<std::string> paths) {
  std::vector<std::string> seen;
  for (const std::string& path : paths) {
    if (path.empty()) continue;
    if (is_replaceable(path) && std::ranges::count(seen, path) > 0)
      throw InputError(path, "", "is named for two results; give each a file of its own");
    fusion::require_writable(path);
    seen.push_back(path);
  }
}

void write(const Output& output, const std::vector<ResultFile>& files) {
  std::exception_ptr first;
  for (const ResultFile& file : files) {
    if (file.path.empty()) continue;
    try {
      write_text(file.path, file.text());
      note(output, "wrote " + file.path + (file.hint.empty() ? "" : "; " + file.hint));
    } catch (const std::exception& error) {
      if (first)
        note(output, error.what());
      else
        first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

std::vector<std::string> split_list(std::string_view flag, const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = list.find(',', begin);
    parts.push_back(list.substr(begin, end == std::string::npos ? end : end - begin));
    if (parts.back().empty())
      throw InputError("", flag,
                       in_quotes(list) + (list.empty() ? " names nothing" : " has a comma with nothing on one side"));
  }
  return parts;
}

}  // namespace fusion::cli
