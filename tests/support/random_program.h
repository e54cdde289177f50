// Random platforms and programs for engines: pipelines of every order, and tangles of computations and messages.
#pragma once

#include <random>
#include <utility>
#include <vector>

#include "bench/synthetic.h"

namespace fusion {

struct RandomRun {
  Platform platform;
  Program program;
};

inline RandomRun random_run(std::mt19937_64& random, bool shared) {
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const auto real = [&](double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); };
  const std::size_t num_devices = 2 + below(7);
  RandomRun run{make_platform({.num_devices = static_cast<int>(num_devices),
                               .num_sites = 1 + static_cast<int>(below(2)),
                               .nic = BytesPerSecond(real(1e6, 1e9)),
                               .uplink = BytesPerSecond(real(1e6, 1e8)),
                               .nic_latency = Seconds(real(0, 1e-3)),
                               .uplink_latency = Seconds(below(3) == 0 ? 0 : real(0, 0.2)),
                               .shared = shared}),
                {}};
  if (below(2) == 0) {
    constexpr const char* orders[] = {"gpipe", "1f1b", "interleaved:2", "interleaved:3", "zb-h1", "zbv"};
    run.program = make_pipeline(run.platform, {.order = orders[below(std::size(orders))],
                                               .micro_batches = 1 + static_cast<int>(below(7)),
                                               .forward = Seconds(real(0, 0.5)),
                                               .backward = Seconds(real(0, 0.5)),
                                               .message = Bytes(static_cast<std::int64_t>(below(3'000'000)))});
    return run;
  }
  run.program.info.micro_batches = 1;
  std::vector<std::vector<TaskId>> of(num_devices);
  for (int i = 0; i < 60; ++i) {
    const std::size_t from = below(num_devices), to = (from + 1 + below(num_devices - 1)) % num_devices;
    std::vector<TaskId> after;
    if (!of[from].empty()) after = {of[from][below(of[from].size())]};
    if (below(2) == 0) {
      of[from].push_back(add_compute(run.program, DeviceId(from), Seconds(real(0, 0.1)), after));
    } else {
      const MessageTasks message = add_message(run.program, DeviceId(from), DeviceId(to),
                                               Bytes(static_cast<std::int64_t>(below(5'000'000))), after);
      of[from].push_back(message.send);
      of[to].push_back(message.recv);
    }
  }
  return run;
}

}  // namespace fusion
