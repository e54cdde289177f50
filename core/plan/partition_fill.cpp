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
        next_cut_(seats.size() * (num_units_ + 1)),
        after_(num_units_ + 1),
        from_(num_units_ + 1),
        priced_end_(num_units_ + 1),
        largest_end_(num_units_ + 1),
        smallest_start_(num_units_ + 1),
        window_(num_units_ + 1) {}

  std::optional<Partition> run(const FillOptions&);

 private:
  void price_ends(std::size_t p, const FillOptions&);
  void bound_memory(std::size_t p);
  void choose_ends(std::size_t p, double bound_s);
  Partition read_back(std::size_t first_seat, const FillOptions&) const;

  const Line& line_;
  std::span<const Seat> seats_;
  std::span<const Hop> hops_;
  std::size_t num_units_;
  std::vector<std::uint32_t> next_cut_;               ///< [p][j]: where seat p ends when it starts at j
  std::vector<double> after_, from_;                  ///< g of the next seat and of this one, by start
  std::vector<double> priced_end_;                    ///< X_p(i) + C_p(i) + g_(p+1)(i)
  std::vector<double> largest_end_, smallest_start_;  ///< memory terms made monotone
  std::vector<std::uint32_t> window_;
};

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

void FillSearch::bound_memory(std::size_t p) {
  const MemoryTerms memory(line_, seats_[p]);
  double largest = -infinity, smallest = infinity;
  for (std::size_t i = 0; i <= num_units_; ++i) {
    largest_end_[i] = largest = std::max(largest, memory.at_end(i));
    const std::size_t j = num_units_ - i;
    smallest_start_[j] = smallest = std::min(smallest, memory.at_start(j));
  }
}

void FillSearch::choose_ends(std::size_t p, double bound_s) {
  const auto& time = line_.time_s[seats_[p].speed_class];
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
    const double room = seats_[p].memory_bytes + smallest_start_[j];
    while (head < tail && (time[window_[head]] - time[j] > bound_s || largest_end_[window_[head]] > room)) ++head;
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
    bound_memory(p);
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
  for (std::size_t tried = 0; tried < options.max_bounds; ++tried) {
    std::optional<Partition> found = search.run(fill);
    if (!found) break;
    fill.bound_s = found->bottleneck_s * options.step;
    const double fill_s = found->fill_s;
    if (!best || iteration_s(*found, options.micro_batches) < iteration_s(*best, options.micro_batches))
      best = std::move(found);
    // A tighter bound can only raise the fill.
    if (fill_s >= iteration_s(*best, options.micro_batches)) break;
  }
  return best;
}

}  // namespace fusion
