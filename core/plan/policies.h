// Placement policies: which device runs which ops. One row each; a policy is a function.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/plan/compression.h"
#include "core/plan/stage_costs.h"

namespace fusion {

struct PolicyInput {
  const Graph& graph;
  const Costs& costs;
  const Platform& platform;
  const Schedule& request;         ///< the undecided part is empty
  const Compression& compression;  ///< so that a policy can judge a cut by what will cross it
};

struct PolicyRow {
  std::string_view name;
  std::string_view help;
  /// Stages of a placement. Throws Infeasible where the policy finds none that fits the devices' memory.
  std::vector<Stage> (*place)(const PolicyInput&);
};

std::span<const PolicyRow> policy_table();
/// Throws InputError with the nearest names.
const PolicyRow& find_policy(std::string_view name);

}  // namespace fusion
