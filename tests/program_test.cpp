// Programs: memory walk, descriptions, and the validator against every kind of malformed or stuck program.
#include "core/program/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>

#include "bench/synthetic.h"
#include "core/base/error.h"
#include "core/program/lower.h"

namespace fusion {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr DeviceId d0(0UL), d1(1UL), d2(2UL);

Platform ranks(int n) {
  Platform platform = make_platform({.num_devices = n});
  for (std::size_t i = 0; i < platform.devices.size(); ++i) platform.devices[i].name = "r" + std::to_string(i);
  return platform;
}

Program empty_program() {
  Program program;
  program.info.micro_batches = 1;
  return program;
}

void expect_rejected(const Program& program, Sends sends, const std::string& message) {
  EXPECT_THAT([&] { validate(program, ranks(3), sends, "demo"); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("demo"), HasSubstr(message))));
}

TEST(Program, PeakMemoryIsWalkedInListOrder) {
  // static 10; forward +5 kept; backward +3 then -8. F F B B: 10+5+5+3 = 23. F B F B: 10+5+3 = 18.
  Program program = empty_program();
  program.info.micro_batches = 2;
  Task forward, backward;
  forward.allocates = Bytes(5);
  backward.phase = Phase::backward;
  backward.allocates = Bytes(3);
  backward.frees = Bytes(8);
  const TaskId f = add_task(program, forward), b = add_task(program, backward);
  EXPECT_EQ(peak_memory(program, {d0, Bytes(10), {{f, 0}, {f, 1}, {b, 0}, {b, 1}}}), Bytes(23));
  EXPECT_EQ(peak_memory(program, {d0, Bytes(10), {{f, 0}, {b, 0}, {f, 1}, {b, 1}}}), Bytes(18));
  EXPECT_EQ(peak_memory(program, {d0, Bytes(10), {}}), Bytes(10));
}

TEST(Program, DescribesTasksForPeople) {
  const Platform platform = ranks(2);
  Program program = make_pipeline(platform, {.micro_batches = 1});
  program.stage_names[1] = "blocks 3-7";
  program.tasks[6].payload.name = "h.3.add";
  std::vector<std::string> texts;
  for (std::size_t t = 0; t < program.tasks.size(); ++t) texts.push_back(describe(program, platform, TaskId(t)));
  EXPECT_THAT(texts, testing::ElementsAre("forward stage 0", "backward stage 0", "forward blocks 3-7",
                                          "backward blocks 3-7", "send activation to r1", "recv activation from r0",
                                          "send gradient h.3.add to r0", "recv gradient from r1"));
}

// G7: r0 SendF1, RecvF0; r1 SendF0, RecvF1.
TEST(Golden, G7_BothSendBeforeTheyReceive) {
  Program program = empty_program();
  const MessageTasks f1 = add_message(program, d0, d1, Bytes(8)), f0 = add_message(program, d1, d0, Bytes(8));
  for (const TaskId task : {f1.send, f1.recv}) program.tasks[task.index()].payload.name = "F1";
  for (const TaskId task : {f0.send, f0.recv}) program.tasks[task.index()].payload.name = "F0";
  program.devices = {{d0, {}, {{f1.send, 0}, {f0.recv, 0}}}, {d1, {}, {{f0.send, 0}, {f1.recv, 0}}}};
  expect_rejected(program, Sends::rendezvous, "r0 send F1 -> r1 send F0 -> r0 send F1");
  EXPECT_NO_THROW(validate(program, ranks(2), Sends::buffered, "demo"));
  // Once one of the two receives first, blocking sends get through as well.
  program.devices[1].steps = {{f1.recv, 0}, {f0.send, 0}};
  EXPECT_NO_THROW(validate(program, ranks(2), Sends::rendezvous, "demo"));
}

TEST(Program, RingOfBlockingSendsIsACycleOfAll) {
  Program program = empty_program();
  for (const auto& [from, to] : {std::pair{d0, d1}, {d1, d2}, {d2, d0}}) add_message(program, from, to, Bytes(8));
  for (DeviceProgram& device : program.devices) {
    std::vector<Step> steps = expand(device.steps);
    std::ranges::stable_partition(steps, [&](Step s) { return program.task(s.task).kind == TaskKind::send; });
    device.steps = steps;
  }
  expect_rejected(program, Sends::rendezvous, "r0 send -> ");
  EXPECT_NO_THROW(validate(program, ranks(3), Sends::buffered, "demo"));
}

TEST(Program, PipelinesFinish) {
  for (const OrderRow& order : order_table())
    for (const int micro_batches : {1, 3, 8}) {
      const Platform platform = make_platform({.num_devices = 4});
      const Program program =
          make_pipeline(platform, {.order = std::string(order.name), .micro_batches = micro_batches});
      EXPECT_NO_THROW(validate(program, platform, Sends::buffered, "demo")) << order.name;
    }
}

// Buffered sends don't save a pair of computes that wait for each other's message.
TEST(Program, CycleOfComputesIsFoundUnderBothKindsOfSend) {
  const Platform platform = ranks(2);
  Program program = make_pipeline(platform, {.micro_batches = 2});
  // Stage 0 wants to run B0 and B1 before F0 and F1; stage 1 can't make their gradients without the forwards.
  std::vector<Step> steps = expand(program.devices[0].steps);
  const auto is_backward = [&](Step s) {
    return program.task(s.task).kind == TaskKind::compute && program.task(s.task).phase == Phase::backward;
  };
  std::ranges::stable_partition(steps, is_backward);
  program.devices[0].steps = steps;
  EXPECT_THAT([&] { validate(program, platform, Sends::buffered, "demo"); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("r0 forward F"), HasSubstr("-> r0 backward B"))));
  EXPECT_THROW(validate(program, platform, Sends::rendezvous, "demo"), InputError);
}

TEST(Program, LaterMessageOfAChannelBlocksAnEarlierOneInItsList) {
  // r0 lists message A (which waits for r0's last compute) before B; r1 sends back what that compute needs only after
  // B: a cycle through the order of the channel alone.
  Program program = empty_program();
  const TaskId work = add_compute(program, d0, Seconds(1));
  const MessageTasks a = add_message(program, d0, d1, Bytes(1), {work}), b = add_message(program, d0, d1, Bytes(1));
  const MessageTasks back = add_message(program, d1, d0, Bytes(1), {b.recv});
  EXPECT_NO_THROW(validate(program, ranks(2), Sends::buffered, "demo"));
  program.tasks[work.index()].after = {back.recv};
  expect_rejected(program, Sends::buffered, "send");
  // With B first in the list there is no cycle.
  program.devices[0].steps = {{b.send, 0}, {back.recv, 0}, {work, 0}, {a.send, 0}};
  EXPECT_NO_THROW(validate(program, ranks(2), Sends::buffered, "demo"));
}

// G20: an empty program, a send without a receive.
TEST(Golden, G20_NothingToDoIsAnError) {
  expect_rejected(Program{}, Sends::buffered, "empty");
  Program program = empty_program();
  program.devices = {{d0, Bytes(1), {}}};
  expect_rejected(program, Sends::buffered, "empty");
}

TEST(Golden, G20_SendWithoutReceive) {
  Program program = empty_program();
  const TaskId work = add_compute(program, d0, Seconds(1));
  add_compute(program, d1, Seconds(1));
  Task send;
  send.kind = TaskKind::send;
  send.per_micro_batch = false;
  send.device = d0;
  send.peer = d1;
  send.after = {work};
  const TaskId id = add_task(program, send);
  program.devices[0].steps.push_back({id, 0});
  expect_rejected(program, Sends::buffered, "r0 send to r1 has no recv");
  program.tasks[id.index()].kind = TaskKind::recv;
  expect_rejected(program, Sends::buffered, "r0 recv from r1 has no send");
}

struct Mutation {
  const char* message;
  std::function<void(Program&)> apply;
};

/// A valid program of one message and one compute at each end, changed in one place.
TEST(Program, EveryMalformationIsNamed) {
  const auto base = [] {
    Program program = empty_program();
    const TaskId work = add_compute(program, d0, Seconds(1));
    const MessageTasks message = add_message(program, d0, d1, Bytes(8), {work});
    add_compute(program, d1, Seconds(1), {message.recv});
    return program;  // tasks: 0 compute, 1 send, 2 recv, 3 compute
  };
  EXPECT_NO_THROW(validate(base(), ranks(3), Sends::buffered, "demo"));
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const std::vector<Mutation> mutations = {
      {"is 9 bytes as none, its recv 8 bytes", [](Program& p) { p.tasks[1].bytes = Bytes(9); }},
      {"is 8 bytes as fp16, its recv 8 bytes as none", [](Program& p) { p.tasks[1].codec.kind = CodecKind::fp16; }},
      {"negative size", [](Program& p) { p.tasks[1].bytes = p.tasks[2].bytes = Bytes(-1); }},
      {"less often", [](Program& p) { p.tasks[1].per_micro_batch = true; }},
      {"has no recv", [](Program& p) { p.tasks[1].match = TaskId(99UL); }},
      {"has no recv", [](Program& p) { p.tasks[1].match = TaskId(0UL); }},
      {"has no recv", [](Program& p) { p.tasks[1].match = TaskId(1UL); }},
      {"has no recv", [](Program& p) { p.tasks[2].peer = d1; }},
      {"which has no list", [](Program& p) { p.tasks[1].peer = d2; }},
      {"which has no list", [](Program& p) { p.tasks[0].device = DeviceId(77UL); }},
      {"on another device", [](Program& p) { p.tasks[3].after = {TaskId(1UL)}; }},
      {"which does not exist", [](Program& p) { p.tasks[3].after = {TaskId(44UL)}; }},
      {"not negative", [](Program& p) { p.tasks[0].duration = Seconds(-1); }},
      {"must be finite", [=](Program& p) { p.tasks[0].duration = Seconds(nan); }},
      {"must be finite", [=](Program& p) { p.tasks[0].codec_duration = Seconds(infinity); }},
      {"is in no list",
       [](Program& p) {
         p.devices[0].steps = {{TaskId(0UL), 0}};
       }},
      {"is in no list",
       [](Program& p) {
         p.devices[1].steps = {{TaskId(3UL), 0}};
       }},
      {"stands twice",
       [](Program& p) {
         p.devices[0].steps.push_back({TaskId(0UL), 0});
       }},
      {"has no micro-batch 1",
       [](Program& p) {
         p.devices[0].steps = {{TaskId(0UL), 1}, {TaskId(1UL), 0}};
       }},
      {"does not exist",
       [](Program& p) {
         p.devices[0].steps.push_back({TaskId(17UL), 0});
       }},
      {"stands in the list of r0",
       [](Program& p) {
         p.devices[0].steps.push_back({TaskId(3UL), 0});
       }},
      {"two lists", [](Program& p) { p.devices.push_back(p.devices[0]); }},
      {"does not exist: the platform has 3",
       [](Program& p) {
         p.devices.push_back({DeviceId(5UL), {}, {}});
       }},
      {"at least 1", [](Program& p) { p.info.micro_batches = 0; }},
      {"r1 forward -> r1 forward", [](Program& p) { p.tasks[3].after.push_back(TaskId(3UL)); }},
  };
  for (const Mutation& mutation : mutations) {
    Program program = base();
    mutation.apply(program);
    SCOPED_TRACE(mutation.message);
    expect_rejected(program, Sends::buffered, mutation.message);
  }
}

TEST(Program, TwoSendsCantShareAReceive) {
  Program program = empty_program();
  const MessageTasks message = add_message(program, d0, d1, Bytes(8));
  Task second = program.task(message.send);
  const TaskId id = add_task(program, second);
  program.devices[0].steps.push_back({id, 0});
  expect_rejected(program, Sends::buffered, "shares its recv");
}

/// Runs a program by polling every device until nothing moves: slow and obviously right.
bool finishes_by_polling(const Program& program, Sends sends) {
  std::vector<std::vector<bool>> done(program.tasks.size());
  const auto m = static_cast<std::size_t>(program.info.micro_batches);
  for (std::size_t t = 0; t < done.size(); ++t) done[t].resize(program.tasks[t].per_micro_batch ? m : 1);
  const auto ready = [&](Step s) {
    const Task& task = program.task(s.task);
    return std::ranges::all_of(task.after, [&](TaskId a) {
      if (task.per_micro_batch && program.task(a).per_micro_batch) return bool{done[a.index()][s.micro_batch]};
      return std::ranges::all_of(done[a.index()], [](bool b) { return b; });
    });
  };
  std::vector<std::size_t> at(program.devices.size());
  const auto mark = [&](Step s) { done[s.task.index()][s.micro_batch] = true; };
  const auto is_done = [&](Step s) { return bool{done[s.task.index()][s.micro_batch]}; };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t d = 0; d < program.devices.size(); ++d) {
      const std::vector<Step> steps = expand(program.devices[d].steps);
      if (sends == Sends::rendezvous) {
        if (at[d] == steps.size()) continue;
        const Step s = steps[at[d]];
        const Task& task = program.task(s.task);
        if (!ready(s)) continue;
        if (task.kind == TaskKind::send || task.kind == TaskKind::recv) {
          const Step other{task.match, s.micro_batch};
          std::size_t peer = 0;
          while (program.devices[peer].device != task.peer) ++peer;
          if (at[peer] == program.devices[peer].steps.size() ||
              expand(program.devices[peer].steps)[at[peer]] != other || !ready(other))
            continue;
          mark(other);
          ++at[peer];
        }
        mark(s);
        ++at[d];
        moved = true;
        continue;
      }
      std::map<DeviceId, bool> channel_waits;
      bool device_waits = false;
      for (const Step s : steps) {
        const Task& task = program.task(s.task);
        if (is_done(s)) continue;
        bool can = ready(s);
        if (task.kind == TaskKind::recv) can = can && done[task.match.index()][s.micro_batch];
        if (task.kind == TaskKind::send) can = can && !channel_waits[task.peer];
        if (task.kind == TaskKind::compute) can = can && !device_waits;
        if (can) mark(s), moved = true;
        if (!can && task.kind == TaskKind::send) channel_waits[task.peer] = true;
        if (!can && task.kind == TaskKind::compute) device_waits = true;
      }
    }
  }
  return std::ranges::all_of(done, [](const auto& t) { return std::ranges::all_of(t, [](bool b) { return b; }); });
}

TEST(Program, ValidatorAgreesWithPollingOnRandomPrograms) {
  std::mt19937_64 random(7);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  int stuck = 0, finished = 0;
  for (int round = 0; round < 400; ++round) {
    Program program = empty_program();
    std::vector<std::vector<TaskId>> of(3);
    for (int i = 0; i < 8; ++i) {
      const std::size_t from = below(3), to = (from + 1 + below(2)) % 3;
      std::vector<TaskId> after;
      if (!of[from].empty() && below(2) == 0) after = {of[from][below(of[from].size())]};
      if (below(2) == 0) {
        of[from].push_back(add_compute(program, DeviceId(from), Seconds(1), after));
      } else {
        const MessageTasks message = add_message(program, DeviceId(from), DeviceId(to), Bytes(1), after);
        of[from].push_back(message.send);
        of[to].push_back(message.recv);
      }
    }
    for (DeviceProgram& device : program.devices) {
      if (below(2) != 0) continue;
      std::vector<Step> steps = expand(device.steps);
      std::shuffle(steps.begin(), steps.end(), random);
      device.steps = steps;
    }
    for (const Sends sends : {Sends::buffered, Sends::rendezvous}) {
      const bool expected = finishes_by_polling(program, sends);
      (expected ? finished : stuck) += 1;
      if (expected)
        EXPECT_NO_THROW(validate(program, ranks(3), sends, "demo")) << round;
      else
        EXPECT_THROW(validate(program, ranks(3), sends, "demo"), InputError) << round;
    }
  }
  EXPECT_GT(stuck, 50);
  EXPECT_GT(finished, 50);
}

TEST(Program, ValidatesALargePipelineInLinearTime) {
  // 512 stages x 64 micro-batches: 200 thousand steps. A quadratic walk would take minutes.
  const Platform platform = make_platform({.num_devices = 512});
  const Program program = make_pipeline(platform, {.micro_batches = 64});
  EXPECT_EQ(num_steps(program), 512u * 64 * 2 + 511u * 64 * 4);
  EXPECT_NO_THROW(validate(program, platform, Sends::buffered, "demo"));
}

}  // namespace
}  // namespace fusion
