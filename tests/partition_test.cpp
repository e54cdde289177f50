// Partition algorithms against exhaustive search over the cuts, on seeded random lines.
#include "core/plan/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

namespace fusion {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<double> prefix_sums(const std::vector<double>& values) {
  std::vector<double> sums = {0};
  for (const double value : values) sums.push_back(sums.back() + value);
  return sums;
}

/// A line with one speed class and cuts that cost nothing.
Line line_of(const std::vector<double>& seconds) {
  Line line;
  line.time_s = {prefix_sums(seconds)};
  const std::vector<double> zeros(seconds.size() + 1);
  line.resident_bytes = line.kept_bytes = line.kept_at_start_bytes = line.buffer_bytes = zeros;
  line.forward_bytes = line.backward_bytes = zeros;
  return line;
}

struct Case {
  Line line;
  std::vector<Seat> seats;
  std::vector<Hop> hops;
};

/// Unequal devices, asymmetric hops. `tightness` scales the memory: at 0 everything fits, at 1 little does.
Case random_case(std::mt19937_64& random, double tightness, std::size_t max_seats = 6, std::size_t max_units = 10) {
  const auto real = [&](double low, double high) { return std::uniform_real_distribution(low, high)(random); };
  const auto whole = [&](std::size_t low, std::size_t high) {
    return std::uniform_int_distribution<std::size_t>(low, high)(random);
  };
  const std::size_t num_units = whole(1, max_units), num_seats = whole(1, std::min(max_seats, num_units));
  Case c;
  std::vector<double> work(num_units), resident(num_units), kept(num_units);
  for (auto* values : {&work, &resident, &kept})
    for (double& value : *values) value = real(0.1, 10);
  c.line = line_of(work);
  c.line.time_s.push_back(prefix_sums(work));
  for (double& t : c.line.time_s[1]) t *= 3;  // a slower class
  c.line.resident_bytes = prefix_sums(resident);
  c.line.kept_bytes = prefix_sums(kept);
  for (std::size_t i = 1; i < num_units; ++i) {
    c.line.forward_bytes[i] = real(0.1, 20);
    c.line.backward_bytes[i] = whole(0, 3) == 0 ? 0 : real(0.1, 20);
    c.line.buffer_bytes[i] = real(0, 4);
    c.line.kept_at_start_bytes[i] = real(0, 3);
  }
  const double all = c.line.resident_bytes.back() + c.line.kept_bytes.back();
  for (std::size_t p = 0; p < num_seats; ++p)
    c.seats.push_back({whole(0, 1), tightness == 0 ? infinity : all * real(0.3, 2) / tightness,
                       static_cast<double>(std::min<std::size_t>(4, num_seats - p))});
  for (std::size_t p = 0; p + 1 < num_seats; ++p)
    c.hops.push_back({{real(0, 1), real(0, 2), real(1, 2)}, {real(0, 1), real(0, 2), real(1, 2)}});
  return c;
}

bool fits(const Case& c, const Partition& partition) {
  for (std::size_t k = 0; k < partition.seats.size(); ++k) {
    const Seat& seat = c.seats[partition.seats[k]];
    if (memory_bytes(c.line, seat, partition.cuts[k], partition.cuts[k + 1]) > seat.memory_bytes) return false;
  }
  return true;
}

/// Every way to cut the line for seats [first, last], priced.
void for_each_partition(const Case& c, std::size_t first, std::size_t last,
                        const std::function<void(const Partition&)>& visit) {
  Partition partition;
  for (std::size_t p = first; p <= last; ++p) partition.seats.push_back(p);
  const std::function<void(std::size_t)> extend = [&](std::size_t cut) {
    partition.cuts.push_back(cut);
    if (partition.cuts.size() == partition.seats.size()) {
      Partition whole = partition;
      whole.cuts.push_back(c.line.num_units());
      visit(priced(c.line, c.seats, c.hops, whole));
    } else {
      for (std::size_t next = cut + 1; next < c.line.num_units(); ++next) extend(next);
    }
    partition.cuts.pop_back();
  };
  extend(0);
}

double exhaustive_bottleneck(const Case& c) {
  double least = infinity;
  for_each_partition(c, 0, c.seats.size() - 1, [&](const Partition& p) {
    if (fits(c, p)) least = std::min(least, p.bottleneck_s);
  });
  return least;
}

/// Over all runs of neighbouring seats that end at the last one (or anywhere).
double exhaustive_iteration(const Case& c, int micro_batches, bool may_stop_early) {
  double least = infinity;
  for (std::size_t first = 0; first < c.seats.size(); ++first)
    for (std::size_t last = may_stop_early ? first : c.seats.size() - 1; last < c.seats.size(); ++last) {
      if (last - first + 1 > c.line.num_units()) continue;
      for_each_partition(c, first, last, [&](const Partition& p) {
        if (fits(c, p)) least = std::min(least, iteration_s(p, micro_batches));
      });
    }
  return least;
}

void expect_well_formed(const Case& c, const Partition& p) {
  ASSERT_EQ(p.cuts.size(), p.seats.size() + 1);
  EXPECT_EQ(p.cuts.front(), 0u);
  EXPECT_EQ(p.cuts.back(), c.line.num_units());
  EXPECT_EQ(std::adjacent_find(p.cuts.begin(), p.cuts.end(), std::greater_equal<>()), p.cuts.end()) << "an empty part";
  EXPECT_TRUE(fits(c, p));
}

// Two devices alike and a link that costs next to nothing: [10 1 1 | 1 1 10] is 12 on either side, any other cut more.
TEST(Golden, G11_CutAfterLayerThree) {
  Line line = line_of({10, 1, 1, 1, 1, 10});
  for (std::size_t i = 1; i < 6; ++i) line.forward_bytes[i] = line.backward_bytes[i] = 1;
  const std::vector<Seat> seats(2, Seat{0, infinity, 1});
  const std::vector<Hop> hops = {{{0, 1e-9}, {0, 1e-9}}};
  const auto best = min_bottleneck(line, seats, hops);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->cuts, (std::vector<std::size_t>{0, 3, 6}));
  EXPECT_DOUBLE_EQ(best->bottleneck_s, 12);
}

TEST(MinBottleneck, EqualsExhaustiveSearchOverTheCuts) {
  std::mt19937_64 random(1);
  int infeasible = 0, bound_by_memory = 0;
  for (int i = 0; i < 600; ++i) {
    const Case c = random_case(random, i % 3 == 0 ? 0 : i % 3 == 1 ? 1 : 2);
    const auto best = min_bottleneck(c.line, c.seats, c.hops);
    const double expected = exhaustive_bottleneck(c);
    ASSERT_EQ(best.has_value(), expected < infinity) << i;
    if (!best) {
      ++infeasible;
      continue;
    }
    expect_well_formed(c, *best);
    EXPECT_EQ(best->seats.size(), c.seats.size());
    EXPECT_NEAR(best->bottleneck_s, expected, 1e-9 * expected) << i;
    Case roomy = c;
    for (Seat& seat : roomy.seats) seat.memory_bytes = infinity;
    bound_by_memory += expected > exhaustive_bottleneck(roomy) * (1 + 1e-9);
  }
  EXPECT_GT(infeasible, 30);  // the generator reaches both sides
  EXPECT_GT(bound_by_memory, 30);
}

TEST(MinBottleneck, SameOnLongerLines) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 40; ++i) {
    const Case c = random_case(random, i % 2, 4, 40);
    const auto best = min_bottleneck(c.line, c.seats, c.hops);
    const double expected = exhaustive_bottleneck(c);
    ASSERT_EQ(best.has_value(), expected < infinity) << i;
    if (!best) continue;
    EXPECT_NEAR(best->bottleneck_s, expected, 1e-9 * expected) << i;
  }
}

TEST(MinIteration, EqualsExhaustiveSearchWhereMemoryIsAmple) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 300; ++i) {
    const Case c = random_case(random, 0);
    const bool may_stop_early = i % 2 == 0;
    const int micro_batches = 1 + i % 9;
    const auto best = min_iteration(c.line, c.seats, c.hops, {micro_batches, 1 - 1e-9, {}, may_stop_early, 10000});
    ASSERT_TRUE(best);
    expect_well_formed(c, *best);
    const double expected = exhaustive_iteration(c, micro_batches, may_stop_early);
    EXPECT_NEAR(iteration_s(*best, micro_batches), expected, 1e-9 * expected) << i;
  }
}

TEST(MinIteration, NeverBreaksMemoryAndSeldomRefusesWhatFits) {
  std::mt19937_64 random(4);
  int found = 0, possible = 0;
  for (int i = 0; i < 300; ++i) {
    const Case c = random_case(random, 1);
    const auto best = min_iteration(c.line, c.seats, c.hops, {8, 1 - 1e-9, {}, false, 10000});
    const double expected = exhaustive_iteration(c, 8, false);
    possible += expected < infinity;
    if (!best) continue;
    ++found;
    expect_well_formed(c, *best);
    EXPECT_GE(iteration_s(*best, 8), expected * (1 - 1e-9)) << i;
  }
  EXPECT_GE(found, possible * 8 / 10);
}

TEST(MinIteration, CoarseStepsStayNearTheOptimum) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 200; ++i) {
    const Case c = random_case(random, 0);
    const auto best = min_iteration(c.line, c.seats, c.hops, {8, 0.9, {}, false, 100});
    ASSERT_TRUE(best);
    // Between two bounds tried the bottleneck falls by a tenth at most: the best of both is within 1 / 0.9.
    EXPECT_LE(iteration_s(*best, 8), exhaustive_iteration(c, 8, false) / 0.9 + 1e-9) << i;
  }
}

// 4 s of work halved over a link on which a tensor takes 10 s: alone, one device is best (4 + 7 x 4 = 32 s). Codecs
// that shrink up to 10 times bring a transfer to 2 s, no more than a part: 2 + 2 + 2 + 2 + 7 x 2 = 22 s.
TEST(MinIteration, CompressesACutAsFarAsTheBoundAsks) {
  Line line = line_of({2, 2});
  line.forward_bytes[1] = line.backward_bytes[1] = 10;
  const std::vector<Seat> seats(2, Seat{0, infinity, 1});
  const std::vector<Hop> hops = {{{0, 1}, {0, 1}}};
  const auto dense = min_iteration(line, seats, hops, {8, 1 - 1e-9, {}, false, 100});
  ASSERT_TRUE(dense);
  EXPECT_EQ(dense->seats.size(), 1u);
  EXPECT_DOUBLE_EQ(iteration_s(*dense, 8), 32);
  const auto shrunk = min_fill(line, seats, hops, {2, {10}, false});
  ASSERT_TRUE(shrunk);
  EXPECT_EQ(shrunk->seats.size(), 2u);
  EXPECT_DOUBLE_EQ(iteration_s(*shrunk, 8), 22);
  EXPECT_FALSE(min_fill(line, seats, hops, {1.9, {10}, false}));  // a unit alone takes 2 s
}

// Recompute keeps activations of one micro-batch at a time: 5 + 1 x 3 bytes in place of 5 + 4 x 3.
TEST(Memory, RecomputeKeepsOneMicroBatch) {
  Line line = line_of({1});
  line.resident_bytes = {0, 5};
  line.kept_bytes = {0, 3};
  EXPECT_DOUBLE_EQ(memory_bytes(line, {0, infinity, 4}, 0, 1), 17);
  line.recompute = true;
  EXPECT_DOUBLE_EQ(memory_bytes(line, {0, infinity, 4}, 0, 1), 8);
}

}  // namespace
}  // namespace fusion
