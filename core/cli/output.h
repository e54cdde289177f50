// How a command answers: data on standard output, progress and log on standard error, results in files.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/report/report.h"
#include "core/report/table.h"

namespace fusion::cli {

struct Output {
  bool json = false;   ///< machine-readable on standard output instead of a table
  bool quiet = false;  ///< nothing on standard error
};

/// Adds --json and --quiet; or --quiet alone, for commands whose answer is a file of its own kind.
void add_output_flags(CLI::App&, Output&);
void add_quiet_flag(CLI::App&, Output&);

/// Prints a table, in colour where standard output is a terminal and NO_COLOR is not set.
void print(const Table&);
/// The tables of a report and its summary.
void print(const Report&);

/// A line on standard error, unless quiet.
void note(const Output&, const std::string& line);

/// A file that a command was asked for; not asked for where `path` is empty.
struct ResultFile {
  std::string path;
  std::function<std::string()> text;
  std::string hint;  ///< what to do with it, behind "wrote PATH"
};
/// For the start of a command: throws what `write` would throw at its end, as far as that can be known. The paths stay
/// as they are. Also throws InputError where two are the same.
void require_writable(std::initializer_list<std::string> paths);
/// Tries all, then throws the first failure: one full disk does not cost the files on another. Print what they hold
/// before.
void write(const Output&, const std::vector<ResultFile>&);

/// "a,b" as {"a", "b"}. Throws InputError for an empty part, which a comma too many makes.
std::vector<std::string> split_list(std::string_view flag, const std::string& list);

}  // namespace fusion::cli
