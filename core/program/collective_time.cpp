// What a list of transfers takes, round by round, and which row takes least.
#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/names.h"
#include "core/program/collective.h"

namespace fusion {
namespace {

/// What one round puts on channels, shared links and members.
class Round {
 public:
  Round(const Group& group, std::int64_t bytes_per_element) : group_(group), bytes_per_element_(bytes_per_element) {}

  void add(const Transfer& each) {
    const Bytes bytes((each.end - each.begin) * bytes_per_element_);
    const Route way = route(group_.platform, group_.devices[each.from], group_.devices[each.to]);
    latency_ = std::max(latency_, way.latency);
    Seconds& channel = channels_[{each.from, each.to}];
    busiest_ = std::max(busiest_, channel += bytes / way.bandwidth);
    for (const LinkId id : way) {
      const Link& link = group_.platform.link(id);
      if (link.shared) busiest_ = std::max(busiest_, links_[id] += bytes / link.bandwidth);
    }
    if (each.adds) received_[{each.to, each.begin}].push_back(bytes);
  }

  Seconds time() const {
    std::map<std::uint32_t, Seconds> adding;
    Seconds longest{};
    for (const auto& [where, parts] : received_) {
      Seconds& sum = adding[where.first];
      sum += reduce_time(group_.platform, group_.devices[where.first], parts.front(), parts.size() + 1);
      longest = std::max(longest, sum);
    }
    return busiest_ + latency_ + longest;
  }

 private:
  const Group& group_;
  const std::int64_t bytes_per_element_;
  Seconds latency_{}, busiest_{};
  std::map<std::pair<std::uint32_t, std::uint32_t>, Seconds> channels_;
  std::map<LinkId, Seconds> links_;
  std::map<std::pair<std::uint32_t, std::int64_t>, std::vector<Bytes>> received_;  ///< by member and first element
};

}  // namespace

Seconds all_reduce_time(const std::vector<Transfer>& list, const Group& group, std::int64_t bytes_per_element) {
  Seconds sum{};
  for (auto at = list.begin(); at != list.end();) {
    Round round(group, bytes_per_element);
    for (const std::uint32_t number = at->round; at != list.end() && at->round == number; ++at) round.add(*at);
    sum += round.time();
  }
  return sum;
}

const CollectiveRow& choose_collective(std::string_view name, const Group& group, std::int64_t num_elements,
                                       std::int64_t bytes_per_element) {
  const std::span<const CollectiveRow> rows = collective_table();
  if (name != auto_collective) return row_named(rows, name);
  // Of two, each has to send all it has; the first row does so in one round.
  if (group.devices.size() == 2) return rows.front();
  constexpr double rounding = 1e-9;
  const CollectiveRow* quickest = nullptr;
  Seconds least{};
  for (const CollectiveRow& row : rows) {
    const Seconds time = all_reduce_time(transfers(row, group, num_elements), group, bytes_per_element);
    if (quickest != nullptr && time >= least * (1 - rounding)) continue;
    quickest = &row;
    least = time;
  }
  return *quickest;
}

}  // namespace fusion
