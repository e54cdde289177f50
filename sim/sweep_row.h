// One row of a sweep: a set-up and what became of it, as a line of JSON and as a line of CSV.
#pragma once

#include <string>
#include <vector>

#include "sim/sweep.h"

namespace fusion::sim {

/// A file that `simulate --config` takes.
std::string all_options(const SetUp&);

/// Simulates. The row's id and options, then its figures, or "failed" with the reason; no line break.
std::string run_set_up(const SetUp&);

/// The row of a set-up whose worker died; it may have been killed for want of memory, so a later sweep tries it again.
std::string crash_row(const SetUp&, const std::string& death);

enum class Ending { none, crash, finished };

struct ReadRow {
  std::string id;
  Ending ending = Ending::none;  ///< none: no row, or half of one
};
ReadRow read_row(const std::string& line);

std::string csv_of(const std::vector<std::string>& rows);

}  // namespace fusion::sim
