// min_fill and min_iteration: dynamic programming from the last seat to the first,
//
//   g_p(j) = min over i of  X_p(i) - X_p(j) + C_p(i) + g_(p+1)(i),
//
// g_p(j) the least sum of parts and transfers when seat p starts at cut j, X_p the prefix sums of its times, C_p the
// boundary to the next seat. X_p(j) does not depend on i, and the i that bound and memory allow are a window that only
// moves one way as j falls: a sliding-window minimum of X_p(i) + C_p(i) + g_(p+1)(i), O(N) per seat.
//
// A part's memory depends on its ends a little otherwise than by a prefix sum (buffers, tensors kept on both sides).
// The window takes the worse of neighbouring cuts, so it may refuse a part that fits by a hair, never the reverse.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/base/error.h"
#include "core/plan/partition.h"
#include "core/plan/partition_kernels.h"

namespace fusion {
namespace {

using namespace partition_detail;

constexpr double infinity = std::numeric_limits<double>::infinity();

class FillSearch {
 public:
  FillSearch(const Line& line, std::span<const Seat> seats, std::span<const Hop> hops)
      : line_(line),
        seats_(seats),
        hops_(hops),
        num_units_(line.num_units()),
        memory_end_(seats.size() * (num_units_ + 1)),
        next_cut_(seats.size() * (num_units_ + 1)),
        after_(num_units_ + 1),
        from_(num_units_ + 1),
        priced_end_(num_units_ + 1),
        window_(num_units_ + 1) {
    for (std::size_t p = 0; p < seats.size(); ++p) bound_by_memory(p);
  }

  std::optional<Partition> run(const FillOptions&);

 private:
  void bound_by_memory(std::size_t p);
  void price_ends(std::size_t p, const FillOptions&);
  void choose_ends(std::size_t p, double bound_s);
  Partition read_back(std::size_t first_seat, const FillOptions&) const;

  const Line& line_;
  std::span<const Seat> seats_;
  std::span<const Hop> hops_;
  std::size_t num_units_;
  std::vector<std::uint32_t> memory_end_;  ///< [p][j]: the last end that memory allows seat p when it starts at j
  std::vector<std::uint32_t> next_cut_;    ///< [p][j]: the end that is best
  std::vector<double> after_, from_;       ///< g of the next seat and of this one, by start
  std::vector<double> priced_end_;         ///< X_p(i) + C_p(i) + g_(p+1)(i)
  std::vector<std::uint32_t> window_;
};

/// Ends before which every end fits, for starts after which every start fits at least as well: monotone in both.
void FillSearch::bound_by_memory(std::size_t p) {
  const MemoryTerms memory(line_, seats_[p]);
  std::uint32_t* const memory_end = &memory_end_[p * (num_units_ + 1)];
  std::vector<double>& smallest_start = from_;  // free until the first run
  double smallest = infinity;
  for (std::size_t j = num_units_ + 1; j-- > 0;) smallest_start[j] = smallest = std::min(smallest, memory.at_start(j));
  std::size_t end = 0;
  for (std::size_t j = 0; j <= num_units_; ++j) {
    while (end < num_units_ && memory.at_end(end + 1) <= seats_[p].memory_bytes + smallest_start[j]) ++end;
    memory_end[j] = static_cast<std::uint32_t>(end);
  }
}

void FillSearch::price_ends(std::size_t p, const FillOptions& options) {
  const auto& time = line_.time_s[seats_[p].speed_class];
  const bool last = p + 1 == seats_.size();
  for (std::size_t i = 0; i < num_units_; ++i) {
    priced_end_[i] = infinity;
    if (last || after_[i] == infinity) continue;
    const TransferTime cut = crossing(line_, hops_[p], i, options.pricing.relief, options.bound_s);
    priced_end_[i] = time[i] + cut.fill_s + after_[i];
  }
  priced_end_[num_units_] = last || options.may_stop_early ? time[num_units_] : infinity;
}

void FillSearch::choose_ends(std::size_t p, double bound_s) {
  const auto& time = line_.time_s[seats_[p].speed_class];
  const std::uint32_t* const memory_end = &memory_end_[p * (num_units_ + 1)];
  std::uint32_t* const next_cut = &next_cut_[p * (num_units_ + 1)];
  // window_[head, tail) holds ends, falling, whose priced ends rise towards the head's side of the line.
  std::size_t head = 0, tail = 0;
  from_[num_units_] = infinity;
  for (std::size_t j = num_units_; j-- > 0;) {
    const std::size_t end = j + 1;
    if (priced_end_[end] < infinity) {
      while (tail > head && priced_end_[window_[tail - 1]] >= priced_end_[end]) --tail;
      window_[tail++] = static_cast<std::uint32_t>(end);
    }
    while (head < tail && (window_[head] > memory_end[j] || time[window_[head]] - time[j] > bound_s)) ++head;
    from_[j] = head < tail ? priced_end_[window_[head]] - time[j] : infinity;
    if (head < tail) next_cut[j] = window_[head];
  }
}

Partition FillSearch::read_back(std::size_t first_seat, const FillOptions& options) const {
  Partition result;
  result.cuts.push_back(0);
  for (std::size_t p = first_seat; result.cuts.back() < num_units_; ++p) {
    result.seats.push_back(p);
    result.cuts.push_back(next_cut_[p * (num_units_ + 1) + result.cuts.back()]);
  }
  return priced(line_, seats_, hops_, std::move(result), options.pricing, options.bound_s);
}

std::optional<Partition> FillSearch::run(const FillOptions& options) {
  std::size_t first_seat = seats_.size();
  double least = infinity;
  for (std::size_t p = seats_.size(); p-- > 0;) {
    price_ends(p, options);
    choose_ends(p, options.bound_s);
    if (from_[0] < least) {
      least = from_[0];
      first_seat = p;
    }
    std::swap(after_, from_);
  }
  if (first_seat == seats_.size()) return {};
  return read_back(first_seat, options);
}

}  // namespace

std::optional<Partition> min_fill(const Line& line, std::span<const Seat> seats, std::span<const Hop> hops,
                                  const FillOptions& options) {
  check(hops.size() + 1 == seats.size(), "a hop between neighbouring seats");
  return FillSearch(line, seats, hops).run(options);
}

std::optional<Partition> min_iteration(const Line& line, std::span<const Seat> seats, std::span<const Hop> hops,
                                       const IterationOptions& options) {
  check(hops.size() + 1 == seats.size(), "a hop between neighbouring seats");
  FillSearch search(line, seats, hops);
  FillOptions fill{options.first_bound_s, options.pricing, options.may_stop_early};
  std::optional<Partition> best;
  double least = infinity;
  for (std::size_t tried = 0; tried < options.max_bounds; ++tried) {
    std::optional<Partition> found = search.run(fill);
    if (!found) break;
    fill.bound_s = found->bottleneck_s * options.step;
    const double fill_s = found->fill_s;
    const double score = options.score ? options.score(*found) : iteration_s(*found, options.micro_batches);
    if (score < least) {
      least = score;
      best = std::move(found);
    }
    if (fill_s >= least) break;  // a tighter bound can only raise the fill
  }
  return best;
}

}  // namespace fusion
