// When a run has come into a steady state, and how far it can be skipped.
//
// A walk is a system of sums and maxima: the state after a sweep is z' = F(z), where each entry of F is the latest of
// some entries of z, each plus a constant. Between choices that stay the same F is linear. So if
//
//     F(z) = z + g                  a period later all stands as before, and each time has grown by its g, and
//     F(z + n g) = F(z) + n g       as long as no earlier time overtakes a later one,
//
// then n periods more come to z + n g, exactly. Where all times grow alike the second line always holds, and nothing
// more need be seen. Where devices drift apart, one more period is walked with the growth of every time beside it; n
// ends when one overtakes another, and the walk goes on step by step. Cf. Baccelli, Cohen, Olsder, Quadrat,
// Synchronization and Linearity, theorem 3.28: such a system always comes to a period. It may be one of many sweeps: a
// pipeline bound by its messages passes a bubble from device to device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "core/engine/walk_moment.h"

namespace fusion {

class SteadyState {
 public:
  /// `alike`: every time that is used again and again comes from a step that is itself taken again and again, so that
  /// all of them may grow alike.
  explicit SteadyState(bool alike) : alike_(alike) {}

  /// To be called after every sweep, in which each walker took the same part of its list, if it could. Moves the walk
  /// on where it can, and says whether it did; `later` is what compares its times.
  bool after_sweep(WalkMoment& now, Later& later);

 private:
  static constexpr std::size_t longest_period = 256;
  static constexpr std::size_t most_memory = 16 << 20;

  void keep(const WalkMoment& now);
  WalkMoment& ago(std::size_t sweeps) { return kept_[kept_.size() - 1 - sweeps].moment; }
  double uneven(std::size_t sweeps) const { return kept_[kept_.size() - 1 - sweeps].uneven_s; }
  double trace(std::size_t sweeps) const { return kept_[kept_.size() - 1 - sweeps].trace_s; }

  bool measure(std::size_t period);
  bool find_alike();
  bool find_period();
  bool all_grow_alike() const;
  bool skip_alike_from_the_best_point(WalkMoment& now);
  std::uint32_t proven_periods(WalkMoment& now, const Later& later);
  void forget();

  /// A moment, and two numbers that follow from its times: a weighted sum, and by how much that differs from what the
  /// first time alone would give. The second one stays the same while all times grow alike.
  struct Kept {
    WalkMoment moment;
    double trace_s = 0, uneven_s = 0;
  };

  const bool alike_;
  std::vector<double> weights_;  ///< by walker
  double sum_of_weights_ = 0;
  std::deque<Kept> kept_;    ///< after the last sweeps in which no list came to another block
  std::vector<Kept> spare_;  ///< memory to use again
  std::size_t blocks_ended_ = 0;
  std::size_t period_ = 0;  ///< sweeps
  std::size_t left_ = 0;    ///< sweeps until the period that is tried is over; 0: none is
  std::size_t pause_ = 0, failures_ = 0;
  WalkState change_;        ///< per period: times, sums and counts
  double tolerance_s_ = 0;  ///< of a growth: rounding
};

}  // namespace fusion
