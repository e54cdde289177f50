// Every policy with every compression on one problem, simulated and compared.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/plan.h"
#include "core/report/report.h"

namespace fusion::sim {

struct RankRow {
  std::string policy, compress;
  std::optional<Report> report;  ///< none where the plan is infeasible
  std::string failure;           ///< why
  Schedule schedule;             ///< empty where infeasible
  double speedup = 0;            ///< iteration of the baseline over this one's
  Seconds lower_bound{};         ///< of what any placement takes by prediction, under this compression
};

struct Ranking {
  std::vector<RankRow> rows;  ///< fastest first, then those without a result
  std::string baseline;       ///< "equal-number, none"
};

/// What `rank` compares: names of the policy table, and compressions as --compress takes them.
struct RankRequest {
  RunConfig config;  ///< its policy and compress are replaced by each of those below
  std::vector<std::string> policies, compressions;
  std::string engine = "simgrid", network = "ideal";
};

/// The baseline is the first policy and compression of the request with a result. `begin` is told of each piece of
/// work.
Ranking rank(const RankRequest&, const Problem&, const std::function<void(const std::string&)>& begin);

/// All names of the policy table; all compressions with their default ratio, or with `ratio` if it is above 0.
std::vector<std::string> all_policies();
std::vector<std::string> all_compressions(double ratio);

}  // namespace fusion::sim
