#include "core/plan/partition.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/plan/partition_kernels.h"

namespace fusion {

using namespace partition_detail;

double memory_bytes(const Line& line, const Seat& seat, std::size_t begin, std::size_t end) {
  const MemoryTerms terms(line, seat);
  return terms.at_end(end) - terms.at_start(begin);
}

Partition priced(const Line& line, std::span<const Seat> seats, std::span<const Hop> hops, Partition result,
                 CutPricing pricing, double bound_s) {
  result.fill_s = result.bottleneck_s = 0;
  result.round_trip_s.assign(result.seats.size(), 0);
  for (std::size_t k = result.seats.size(); k-- > 0;) {
    const auto& time = line.time_s[seats[result.seats[k]].speed_class];
    const double part_s = time[result.cuts[k + 1]] - time[result.cuts[k]];
    result.fill_s += part_s;
    result.round_trip_s[k] = result.fill_s;
    result.bottleneck_s = std::max(result.bottleneck_s, part_s);
    if (k == 0) continue;
    check(result.seats[k] == result.seats[k - 1] + 1, "hops join neighbouring seats");
    const TransferTime cut = crossing(line, hops[result.seats[k - 1]], result.cuts[k], pricing.relief, bound_s);
    result.fill_s += cut.fill_s;
    result.bottleneck_s = std::max(result.bottleneck_s, cut.busy_s);
  }
  return result;
}

}  // namespace fusion
