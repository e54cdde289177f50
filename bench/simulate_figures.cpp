#include "bench/simulate_figures.h"

#include <algorithm>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "bench/child.h"
#include "bench/heap_engine.h"
#include "bench/synthetic.h"
#include "bench/timing.h"
#include "core/engine/native.h"
#include "core/report/table.h"
#include "sim/engines.h"

namespace fusion::bench {
namespace {

/// One program: its run with a report, the bare heap's, and memory before the heap's.
struct Run {
  double activities = 0, wall_s = 0, heap_s = 0, memory_bytes = 0;
};

double median_s(int repeat, const std::function<void()>& function) {
  std::vector<double> times;
  for (int i = 0; i < repeat; ++i) times.push_back(seconds_of(function));
  std::ranges::sort(times);
  return times[times.size() / 2];
}

/// The median of some runs after a first one that warms up; memory is that of one run alone.
Run measure(const Platform& platform, const Program& program, NativeNetwork network, int repeat) {
  Run run;
  run.activities = num_activities(program);
  const auto simulate = [&] { simulate_native(program, platform, {.network = network}); };
  simulate();
  run.memory_bytes = peak_rss_bytes();
  run.wall_s = median_s(repeat, simulate);
  run.heap_s = median_s(std::min(repeat, 5), [&] { run_on_heap(program, platform); });
  return run;
}

Run measure_pipeline(int devices, int micro_batches, NativeNetwork network, int repeat) {
  return in_child([&] {
    const Platform platform = platform_of(devices);
    return measure(platform, pipeline_of(platform, "1f1b", micro_batches), network, repeat);
  });
}

/// Messages of unequal size from as many devices to one, all at once: its NIC is divided.
Run measure_flows(int flows, int repeat) {
  return in_child([&] {
    const Platform platform = make_platform({.num_devices = flows + 1});
    Program program;
    program.info.micro_batches = 1;
    std::mt19937_64 random(7);
    std::uniform_int_distribution<std::int64_t> bytes(1'000'000, 100'000'000);
    for (int f = 1; f <= flows; ++f) {
      const DeviceId sender(static_cast<std::size_t>(f));
      add_message(program, sender, DeviceId(0UL), Bytes(bytes(random)));
    }
    return measure(platform, program, NativeNetwork::ideal, repeat);
  });
}

/// Set-ups of 48 stages whose computations and messages differ: platform, program and run of each.
double set_ups_s(int count, const std::function<void(const Program&, const Platform&)>& simulate) {
  return in_child([&] {
    std::mt19937_64 random(9);
    return seconds_of([&] {
      for (int i = 0; i < count; ++i) {
        const Platform platform = platform_of(48);
        std::uniform_real_distribution<double> factor(0.5, 2);
        const Program program = make_pipeline(platform, {.micro_batches = 64,
                                                         .forward = Seconds(0.010 * factor(random)),
                                                         .backward = Seconds(0.020 * factor(random)),
                                                         .message = Bytes(std::int64_t{1} << (18 + i % 6))});
        simulate(program, platform);
      }
    });
  });
}

struct Figure {
  std::string name;
  double value, goal;
  std::string unit;
  bool at_least = false;
  double heap = 0;  ///< the bare heap's, in the same unit; 0: none
  bool met() const { return at_least ? value >= goal : value <= goal; }
};

std::vector<Figure> measure_all() {
  constexpr double ms = 1e3, million = 1e-6, mib = 1.0 / (1 << 20);
  std::vector<Figure> figures;
  const Run small = measure_pipeline(48, 64, NativeNetwork::no_share, 101);
  figures.push_back({"48 x 64", small.wall_s * ms, 1.2, "ms", false, small.heap_s * ms});
  const Run middle = measure_pipeline(4096, 64, NativeNetwork::no_share, 7);
  figures.push_back({"4,096 x 64, over the bare heap", middle.wall_s / middle.heap_s, 2.5, "x", false, 1});
  figures.push_back({"4,096 x 64, activities per second", middle.activities / middle.wall_s * million, 10, "M", true,
                     middle.activities / middle.heap_s * million});
  figures.push_back({"4,096 x 64, memory", middle.memory_bytes * mib, 64, "MiB"});
  const Run large = measure_pipeline(100'000, 64, NativeNetwork::no_share, 1);
  figures.push_back({"100,000 x 64", large.wall_s, 3, "s", false, large.heap_s});
  figures.push_back({"100,000 x 64, memory", large.memory_bytes * mib, 512, "MiB"});
  const Run shared = measure_pipeline(4096, 64, NativeNetwork::ideal, 5);
  figures.push_back({"4,096 x 64 on shared links, activities per second", shared.activities / shared.wall_s * million,
                     3, "M", true, shared.activities / shared.heap_s * million});
  const Run flows = measure_flows(5000, 21);
  figures.push_back({"5,000 unequal messages on one link", flows.wall_s * ms, 10, "ms", false, flows.heap_s * ms});
  const Run many = measure_pipeline(48, 32'768, NativeNetwork::no_share, 51);
  figures.push_back({"48 x 32,768", many.wall_s * ms, 2 * small.wall_s * ms, "ms", false, many.heap_s * ms});
  figures.push_back(
      {"1,000 set-ups of 48 x 64",
       set_ups_s(1000, [](const Program& program, const Platform& platform) { simulate_native(program, platform); }),
       1.5, "s", false,
       set_ups_s(1000, [](const Program& program, const Platform& platform) { run_on_heap(program, platform); })});
  figures.push_back({"the same on SimGrid",
                     set_ups_s(1000,
                               [](const Program& program, const Platform& platform) {
                                 sim::find_engine("simgrid").simulate_again(program, platform, "ideal");
                               }),
                     40, "s"});
  return figures;
}

}  // namespace

Platform platform_of(int devices) {
  constexpr int devices_per_site = 64;
  return make_platform({.num_devices = devices,
                        .num_sites = std::max(1, devices / devices_per_site),
                        .nic_latency = Seconds(50e-6),
                        .uplink_latency = Seconds(5e-3)});
}

Program pipeline_of(const Platform& platform, const std::string& order, int micro_batches) {
  return make_pipeline(platform, {.order = order,
                                  .micro_batches = micro_batches,
                                  .forward = Seconds(0.010),
                                  .backward = Seconds(0.020),
                                  .message = Bytes(4 << 20)});
}

double num_activities(const Program& program) {
  double sum = 0;
  for (const Task& task : program.tasks)
    if (task.kind != TaskKind::recv) sum += instances(program, task);
  return sum;
}

void print_figures(bool json) {
  const std::vector<Figure> figures = measure_all();
  if (json) {
    nlohmann::ordered_json rows;
    for (const Figure& f : figures) {
      rows.push_back({{"figure", f.name}, {"value", f.value}, {"unit", f.unit}, {"goal", f.goal}, {"met", f.met()}});
      if (f.heap > 0) rows.back()["bare_heap"] = f.heap;
    }
    std::cout << rows.dump(2) << "\n";
    return;
  }
  Table table({{"figure"}, {"value", Align::right}, {"goal", Align::right}, {"bare heap", Align::right}, {"met"}});
  for (const Figure& f : figures)
    table.add({f.name, significant(f.value) + " " + f.unit,
               (f.at_least ? "at least " : "") + significant(f.goal) + " " + f.unit,
               f.heap > 0 ? significant(f.heap) + " " + f.unit : "", f.met() ? "yes" : "no"});
  std::cout << table.render(false);
}

}  // namespace fusion::bench
