// All-reduce: every algorithm proven on symbols, and timed against its closed form in both engines.
#include "core/program/collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "bench/synthetic.h"
#include "core/engine/native.h"
#include "core/program/lower.h"
#include "sim/simulate.h"

namespace fusion {
namespace {

/// What a member holds of one element: how often each member's gradient is in it.
using Sum = std::vector<int>;
using Held = std::vector<Sum>;  ///< by element

std::vector<Held> own_gradients(std::size_t num_members, std::size_t num_elements) {
  std::vector<Held> held(num_members, Held(num_elements, Sum(num_members, 0)));
  for (std::size_t m = 0; m < num_members; ++m)
    for (Sum& sum : held[m]) sum[m] = 1;
  return held;
}

void expect_sums(const std::vector<Held>& held, const std::string& what) {
  const Sum each_once(held.size(), 1);
  for (const Held& of_member : held)
    for (const Sum& sum : of_member) ASSERT_EQ(sum, each_once) << what;
}

/// Adds or puts `values` in place of the elements from `begin`.
void receive(Held& held, std::int64_t begin, const Held& values, bool adds) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    Sum& own = held[static_cast<std::size_t>(begin) + i];
    if (!adds) own = values[i];
    if (adds) std::ranges::transform(own, values[i], own.begin(), std::plus());
  }
}

Held range_of(const Held& held, std::int64_t begin, std::int64_t end) {
  return {held.begin() + begin, held.begin() + end};
}

/// Round by round: all send what they held before it.
std::vector<Held> replayed(const std::vector<Transfer>& list, std::vector<Held> held) {
  std::vector<Held> before = held;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Transfer& each = list[i];
    if (i > 0 && each.round != list[i - 1].round) before = held;
    receive(held[each.to], each.begin, range_of(before[each.from], each.begin, each.end), each.adds);
  }
  return held;
}

/// One to three sites, one to three devices on a host: members are unevenly spread.
Platform random_platform(std::mt19937_64& random, std::size_t num_devices) {
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  Platform platform =
      make_platform({.num_devices = static_cast<int>(num_devices), .num_sites = 1 + static_cast<int>(below(3))});
  for (std::size_t d = 1; d < num_devices; ++d) {  // moves a device to the host before it
    const HostId before = platform.devices[d - 1].host;
    if (below(3) > 0 || platform.hosts[before.index()].devices.size() > 2) continue;
    if (platform.hosts[before.index()].site != platform.hosts[d].site) continue;
    platform.hosts[d].devices.clear();
    platform.hosts[before.index()].devices.emplace_back(d);
    platform.devices[d].host = before;
    for (const std::size_t of_host : {d - 1, d})
      if (!platform.buses[of_host]) {
        platform.buses[of_host] = LinkPair{LinkId(platform.links.size()), LinkId(platform.links.size() + 1)};
        platform.links.resize(platform.links.size() + 2, {"bus", BytesPerSecond(1e10), Seconds(0), true});
      }
  }
  return platform;
}

/// The devices in a random order.
Group random_group(std::mt19937_64& random, const Platform& platform) {
  Group group{platform, {}};
  for (std::size_t d = 0; d < platform.devices.size(); ++d) group.devices.emplace_back(d);
  std::ranges::shuffle(group.devices, random);
  return group;
}

TEST(Collective, EveryMemberEndsWithTheSumOfAllEachAddedOnce) {
  std::mt19937_64 random(5);
  for (const CollectiveRow& row : collective_table())
    for (std::size_t n = 1; n <= 17; ++n)
      for (const std::size_t num_elements : {1UL, 2UL, 7UL, 37UL, 96UL}) {
        const Platform platform = random_platform(random, n);
        const Group group = random_group(random, platform);
        const auto list = transfers(row, group, static_cast<std::int64_t>(num_elements));
        const std::string what = std::string(row.name) + ", " + std::to_string(n) + " members, " +
                                 std::to_string(num_elements) + " elements";
        expect_sums(replayed(list, own_gradients(n, num_elements)), what);
        for (const Transfer& each : list) ASSERT_LT(each.begin, each.end) << what;
        ASSERT_TRUE(std::ranges::is_sorted(list, {}, &Transfer::round)) << what;
      }
}

/// An all-reduce of bytes and nothing else.
Program program_of(const CollectiveRow& row, const Group& group, std::int64_t num_bytes) {
  Program program;
  program.info.micro_batches = 1;
  std::vector<Member> members;
  for (std::size_t m = 0; m < group.devices.size(); ++m) members.push_back({group.devices[m], StageId(m), {}});
  const Bucket bucket{{ParameterId(0UL)}, num_bytes, 1, "w"};
  const auto tasks = add_all_reduce(program, group.platform, members, bucket, transfers(row, group, num_bytes));
  for (std::size_t m = 0; m < group.devices.size(); ++m) {
    program.devices.push_back({group.devices[m], {}, {}});
    for (const TaskId task : tasks[m].list) program.devices.back().steps.push_back({task, 0});
  }
  return program;
}

/// Devices walk their lists as an executor does: a send packs what is held when it is reached and its `after` are
/// complete, a sum is taken over when something waits for it or at the end, a reduce adds what it waits for.
class ListWalk {
 public:
  ListWalk(const Program& program, std::vector<Held> held)
      : program_(program), held_(std::move(held)), next_(program.devices.size(), 0), done_(program.tasks.size()) {
    for (const DeviceProgram& device : program.devices) {
      lists_.emplace_back();
      for (const Step& each : device.steps) lists_.back().push_back(each.task);
    }
  }

  std::vector<Held> operator()() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t d = 0; d < next_.size(); ++d)
        while (next_[d] < lists_[d].size() && step(lists_[d][next_[d]])) ++next_[d], moved = true;
    }
    for (std::size_t d = 0; d < next_.size(); ++d) EXPECT_EQ(next_[d], lists_[d].size()) << "stuck";
    for (std::size_t t = 0; t < program_.tasks.size(); ++t)
      EXPECT_TRUE(program_.tasks[t].kind != TaskKind::recv || done_[t] || take(TaskId(t))) << "never sent";
    return held_;
  }

 private:
  Held& held_by(const Task& task) { return held_[task.stage.index()]; }

  bool step(TaskId id) {
    const Task& task = program_.task(id);
    if (task.kind == TaskKind::recv) return true;
    for (const TaskId before : task.after)
      if (!done_[before.index()] && !take(before)) return false;
    if (task.kind == TaskKind::send)
      on_the_way_[task.match] = range_of(held_by(task), task.payload.begin, task.payload.end);
    else
      for (const TaskId before : task.after)
        if (const auto part = parts_.extract(before)) receive(held_by(task), task.payload.begin, part.mapped(), true);
    return done_[id.index()] = true;
  }

  bool take(TaskId id) {
    const auto message = on_the_way_.extract(id);
    if (!message) return false;
    const Task& task = program_.task(id);
    if (task.payload.kind == Payload::Kind::parameter_sum)
      receive(held_by(task), task.payload.begin, message.mapped(), false);
    else
      parts_[id] = message.mapped();
    return done_[id.index()] = true;
  }

  const Program& program_;
  std::vector<std::vector<TaskId>> lists_;
  std::vector<Held> held_;
  std::vector<std::size_t> next_;
  std::vector<bool> done_;
  std::map<TaskId, Held> on_the_way_, parts_;
};

TEST(Collective, ProgramsOfEveryListEndWithTheSums) {
  std::mt19937_64 random(6);
  for (const CollectiveRow& row : collective_table())
    for (std::size_t n = 2; n <= 13; ++n) {
      const Platform platform = random_platform(random, n);
      const Group group = random_group(random, platform);
      const Program program = program_of(row, group, 50);
      for (const Sends sends : {Sends::buffered, Sends::rendezvous})
        EXPECT_NO_THROW(validate(program, platform, sends, std::string(row.name)));
      expect_sums(ListWalk(program, own_gradients(n, 50))(), std::string(row.name) + " " + std::to_string(n));
    }
}

// --- times ---

/// n hosts on one switch, memory so fast that additions take nothing.
Platform switched(int n, double bandwidth, double latency = 0, int num_sites = 1, double uplink = 1) {
  Platform platform = make_platform({.num_devices = n,
                                     .num_sites = num_sites,
                                     .nic = BytesPerSecond(bandwidth),
                                     .uplink = BytesPerSecond(uplink),
                                     .nic_latency = Seconds(latency / 2)});
  for (GpuType& gpu : platform.gpus) gpu.memory_bandwidth = BytesPerSecond(1e30);
  return platform;
}

Group all_of(const Platform& platform) {
  Group group{platform, {}};
  for (std::size_t d = 0; d < platform.devices.size(); ++d) group.devices.emplace_back(d);
  return group;
}

const CollectiveRow& row_of(std::string_view name) { return choose_collective(name, {{}, {}}, 0, 1); }

/// In both engines, and by the formula that planning uses.
void expect_time(std::string_view name, const Platform& platform, std::int64_t bytes, double expected_s) {
  const Group group = all_of(platform);
  const Program program = program_of(row_of(name), group, bytes);
  const double tolerance = 1e-6 * expected_s;
  EXPECT_NEAR(native_iteration(program, platform).value, expected_s, tolerance) << name << " native";
  EXPECT_NEAR(sim::simulate_isolated(program, platform, {}).iteration.value, expected_s, tolerance)
      << name << " SimGrid";
  EXPECT_NEAR(all_reduce_time(transfers(row_of(name), group, bytes), group, 1).value, expected_s, tolerance) << name;
}

// Each host sends 2 (n-1)/n S bytes: 2 (3/4) 100e6 / 1.25e9 = 0.12 s; at 10 Mbps 2 (3/4) 100e6 / 1.25e6 = 120 s.
TEST(Golden, G2_RingAllReduce) {
  expect_time("ring", switched(4, 1.25e9), 100'000'000, 0.12);
  expect_time("ring", switched(4, 1.25e6), 100'000'000, 120);
}

TEST(Collective, EachTakesItsClosedForm) {
  constexpr double alpha = 0.01, bandwidth = 1e6;
  for (const int n : {2, 3, 4, 6, 8, 13, 16}) {
    const std::int64_t bytes = 2'000'000LL * n * 48;  // divisible by all shares
    const double S = static_cast<double>(bytes) / bandwidth, k = n;
    const Platform platform = switched(n, bandwidth, alpha);
    expect_time("all-to-all", platform, bytes, alpha + (k - 1) * S);
    expect_time("ring", platform, bytes, 2 * (k - 1) * (alpha + S / k));
    expect_time("parameter-server", platform, bytes, 2 * (alpha + (k - 1) * S));
    expect_time("direct", platform, bytes, 2 * (alpha + (k - 1) / k * S));
    // Two servers of half the bucket: each hears n - 1 others. Of three members or more, one is no server.
    expect_time("multi-server", platform, bytes, 2 * (alpha + (k - 1) / 2 * S));
    // As many steps each way as n has prime factors.
    const std::map<int, int> steps = {{2, 1}, {3, 1}, {4, 2}, {6, 2}, {8, 3}, {13, 1}, {16, 4}};
    expect_time("halving-doubling", platform, bytes, 2 * (steps.at(n) * alpha + (k - 1) / k * S));
  }
}

// Two sites of four behind uplinks: 3 rounds of S/4 in each site, both ways; across, 2 (2 - 1) rounds in which four
// members of a site send S/4/2 each over its uplink, S/2 together.
TEST(Collective, HierarchicalRingTakesItsClosedForm) {
  constexpr double alpha = 0.01, nic = 1e7, uplink = 1e6;
  const double S = 64e6;
  const Platform platform = switched(8, nic, alpha, 2, uplink);
  expect_time("hierarchical-ring", platform, 64'000'000, 2 * 3 * (alpha + S / 4 / nic) + 2 * (alpha + S / 2 / uplink));
  // Where no site has two members there is one ring.
  expect_time("hierarchical-ring", switched(4, nic, alpha, 4, uplink), 64'000'000, 2 * 3 * (alpha + S / 4 / uplink));
}

TEST(Collective, NeighboursAreNear) {
  // Sites {0, 1, 2}, {3, 4, 5}; from any start all of one site come before the next.
  const Platform platform = switched(6, 1e7, 0, 2, 1e6);
  const Group group{platform,
                    {DeviceId(4UL), DeviceId(0UL), DeviceId(3UL), DeviceId(2UL), DeviceId(5UL), DeviceId(1UL)}};
  EXPECT_EQ(near_order(group), (std::vector<std::uint32_t>{0, 2, 4, 1, 3, 5}));
}

TEST(Collective, HalvingSendsLeastAcrossSites) {
  // Two sites of four: halves and quarters stay inside, S/8 x 4 members x 2 ways leave each.
  const Platform platform = switched(8, 1e7, 0, 2, 1e6);
  std::int64_t across = 0;
  for (const Transfer& each : transfers(row_of("halving-doubling"), all_of(platform), 800))
    if ((each.from < 4) != (each.to < 4)) across += each.end - each.begin;
  EXPECT_EQ(across, 2 * 2 * 4 * 100);
  // Three sites of two: halves inside, then two thirds of it to the two other sites, S/6 each.
  const Platform three = switched(6, 1e7, 0, 3, 1e6);
  across = 0;
  for (const Transfer& each : transfers(row_of("halving-doubling"), all_of(three), 600))
    if (each.from / 2 != each.to / 2) across += each.end - each.begin;
  EXPECT_EQ(across, 2 * 6 * 2 * 100);
}

TEST(Collective, AutoTakesTheQuickest) {
  const auto chosen = [](const Platform& platform, std::int64_t bytes) {
    return choose_collective(auto_collective, all_of(platform), bytes, 1).name;
  };
  EXPECT_EQ(chosen(switched(2, 1e6), 1000), "all-to-all");
  EXPECT_EQ(chosen(switched(8, 1e9, 1), 1000), "all-to-all");  // latency alone: one round
  EXPECT_EQ(chosen(switched(8, 1e6), 8000), "ring");           // bandwidth alone: all of 7/8 S tie, the first row wins
  EXPECT_EQ(chosen(switched(8, 1e6, 1), 80'000'000), "direct");
  // Across: ring 14 S/8, hierarchical-ring and halving-doubling S, and the first row of these two wins.
  EXPECT_EQ(chosen(switched(8, 1e9, 0, 2, 1e6), 8000), "hierarchical-ring");
}

TEST(Collective, NamesAreChecked) {
  EXPECT_EQ(collective_named("ring"), "ring");
  EXPECT_EQ(collective_named("auto"), "auto");
  EXPECT_THROW(collective_named("rign"), std::invalid_argument);
}

}  // namespace
}  // namespace fusion
