// Windows of times against a map that keeps everything.
#include "core/engine/pending_times.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace fusion {
namespace {

TEST(PendingTimes, KeepWhatIsNotTakenYet) {
  std::mt19937_64 random(3);
  const auto below = [&](std::uint32_t n) { return std::uniform_int_distribution<std::uint32_t>(0, n - 1)(random); };
  constexpr std::size_t num_edges = 5;
  PendingTimes pending(num_edges);
  std::vector<std::map<std::uint32_t, double>> waiting(num_edges), done(num_edges);
  std::vector<std::uint32_t> next(num_edges);
  for (int event = 0; event < 20'000; ++event) {
    const std::size_t e = below(num_edges);
    // Instances are done nearly in order, and taken so.
    if (below(2) == 0 && waiting[e].size() < 40) {
      std::uint32_t instance = next[e] + below(4);
      while (done[e].contains(instance)) ++instance;
      done[e][instance] = waiting[e][instance] = event;
      pending.put(e, instance, {static_cast<double>(event), 0});
      while (done[e].contains(next[e])) ++next[e];
    } else if (!waiting[e].empty()) {
      auto which = waiting[e].begin();
      if (below(3) == 0) std::advance(which, below(static_cast<std::uint32_t>(waiting[e].size())));
      ASSERT_EQ(pending.peek(e, which->first).at_s, which->second) << event;
      pending.take(e, which->first);
      waiting[e].erase(which);
    }
    for (const auto& [instance, time] : waiting[e]) ASSERT_EQ(pending.peek(e, instance).at_s, time) << event;
    ASSERT_EQ(pending.peek(e, next[e] + 1000).at_s, PendingEdge::unknown_s);
  }
  EXPECT_LT(pending.memory(), 50'000u);
}

}  // namespace
}  // namespace fusion
