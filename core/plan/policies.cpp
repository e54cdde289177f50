#include "core/plan/policies.h"

#include <array>

#include "core/base/names.h"
#include "core/plan/chain_optimal.h"
#include "core/plan/dt_fm.h"
#include "core/plan/exact.h"
#include "core/plan/op_fence.h"
#include "core/plan/policies_baseline.h"

namespace fusion {
namespace {

constexpr std::array rows = {
    PolicyRow{"equal-number", "as many ops on each device, in file order", equal_number},
    PolicyRow{"equal-compute", "work in proportion to each device's speed, in file order", equal_compute},
    PolicyRow{"chain-optimal", "least bottleneck over the cuts, every device used, in file order", chain_optimal},
    PolicyRow{"dt-fm", "DT-FM with one pipeline: shortest path over the devices, as many ops on each", dt_fm},
    PolicyRow{"op-fence", "cuts where the network can bear them; orders devices, may leave some idle", op_fence},
    PolicyRow{"exact", "the best placement there is, by branch and bound; small problems alone", exact},
    PolicyRow{"random", "random device order and random cuts, from --seed", random_placement},
};

}  // namespace

std::span<const PolicyRow> policy_table() { return rows; }

const PolicyRow& find_policy(std::string_view name) {
  try {
    return row_named(policy_table(), name);
  } catch (const std::invalid_argument& fault) {
    throw InputError("", "policy", fault.what());
  }
}

}  // namespace fusion
