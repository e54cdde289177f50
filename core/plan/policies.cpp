#include "core/plan/policies.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/plan/policies_baseline.h"

namespace fusion {
namespace {

constexpr std::array rows = {
    PolicyRow{"equal-number", "as many ops on each device, in file order", equal_number},
    PolicyRow{"equal-compute", "work in proportion to each device's speed, in file order", equal_compute},
    PolicyRow{"random", "random device order and random cuts, from --seed", random_placement},
};

}  // namespace

std::span<const PolicyRow> policy_table() { return rows; }

const PolicyRow& find_policy(std::string_view name) {
  const auto row = std::ranges::find(rows, name, &PolicyRow::name);
  if (row != rows.end()) return *row;
  std::vector<std::string_view> names;
  for (const PolicyRow& each : rows) names.push_back(each.name);
  throw InputError("", "policy", unknown_name(name, names));
}

}  // namespace fusion
