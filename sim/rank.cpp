#include "sim/rank.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/plan/bounds.h"
#include "core/program/lower.h"
#include "sim/engines.h"

namespace fusion::sim {
namespace {

RankRow ranked(const RankRequest& request, const Problem& problem, const std::string& policy,
               const std::string& compress) {
  RankRow row{policy, compress, {}, {}, {}, 0, {}};
  RunConfig config = request.config;
  config.policy = policy;
  config.compress = compress;
  try {
    row.schedule = make_schedule(config, problem);
    row.lower_bound = lower_bound(problem, row.schedule);
    const Program program = lower(row.schedule, problem.graph, problem.costs, problem.platform);
    validate(program, problem.platform, Sends::buffered, policy);
    row.report = find_engine(request.engine).simulate_again(program, problem.platform, request.network);
  } catch (const Infeasible& reason) {
    row.failure = reason.what();
  }
  return row;
}

/// The first row with a result gives the unit of speed-up.
std::string set_speedups(std::vector<RankRow>& rows) {
  const auto baseline = std::find_if(rows.begin(), rows.end(), [](const RankRow& row) { return row.report; });
  if (baseline == rows.end()) return "";
  const Seconds unit = baseline->report->iteration;
  for (RankRow& row : rows)
    if (row.report) row.speedup = unit / row.report->iteration;
  return baseline->policy + ", " + baseline->compress;
}

bool faster(const RankRow& a, const RankRow& b) {
  if (a.report && b.report) return a.report->iteration < b.report->iteration;
  return a.report.has_value() && !b.report.has_value();
}

}  // namespace

Ranking rank(const RankRequest& request, const Problem& problem, const std::function<void(const std::string&)>& begin) {
  Ranking ranking;
  for (const std::string& compress : request.compressions)
    for (const std::string& policy : request.policies) {
      begin(policy + ", " + compress);
      ranking.rows.push_back(ranked(request, problem, policy, compress));
    }
  ranking.baseline = set_speedups(ranking.rows);
  std::stable_sort(ranking.rows.begin(), ranking.rows.end(), faster);
  return ranking;
}

std::vector<std::string> all_policies() {
  std::vector<std::string> names;
  for (const PolicyRow& row : policy_table()) names.emplace_back(row.name);
  return names;
}

std::vector<std::string> all_compressions(double ratio) {
  std::vector<std::string> names;
  for (const CompressionRow& row : compression_table())
    names.push_back(to_string(Compression{&row, row.takes_ratio && ratio > 0 ? ratio : row.default_ratio}));
  return names;
}

}  // namespace fusion::sim
