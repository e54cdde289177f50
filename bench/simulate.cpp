// fusion-bench simulate: a pipeline of equal stages on sites of up to 64 devices, replayed on SimGrid. Each measurement
// runs in a fresh child, so that its memory is its own and SimGrid's engine is new.
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/bench.h"
#include "bench/child.h"
#include "bench/heap_engine.h"
#include "bench/simulate_figures.h"
#include "bench/synthetic.h"
#include "bench/timing.h"
#include "core/base/error.h"
#include "core/report/table.h"
#include "sim/engines.h"
#include "sim/simulate.h"

namespace fusion::bench {
namespace {

struct Options {
  std::string engine = "simgrid", order = "1f1b", network = "ideal";
  int devices = 512, micro_batches = 64, repeat = 3;
  bool json = false, figures = false;
};

struct Sample {
  double wall_s = 0, cpu_s = 0, heap_wall_s = 0, build_s = 0, iteration_s = 0;
  double num_activities = 0, peak_rss_bytes = 0;
};

/// Processor time of this process so far: what a busy machine does not stretch.
double cpu_s() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

Sample measure_simulation(const Options& options) {
  const Platform platform = platform_of(options.devices);
  const Program program = pipeline_of(platform, options.order, options.micro_batches);
  Sample sample;
  const double before_s = cpu_s();
  sample.wall_s = seconds_of([&] {
    sample.iteration_s =
        sim::find_engine(options.engine).simulate(program, platform, options.network, false).iteration.value;
  });
  sample.cpu_s = cpu_s() - before_s;
  sample.num_activities = num_activities(program);
  sample.peak_rss_bytes = peak_rss_bytes();
  return sample;
}

Sample measure_heap(const Options& options) {
  const Platform platform = platform_of(options.devices);
  const Program program = pipeline_of(platform, options.order, options.micro_batches);
  Sample sample;
  sample.heap_wall_s = seconds_of([&] { run_on_heap(program, platform); });
  return sample;
}

Sample measure_build() {
  Sample sample;
  sample.build_s = seconds_of([&] {
    const Platform platform = platform_of(4096);
    sim::build_only(make_pipeline(platform, {.micro_batches = 1}), platform, {});
  });
  return sample;
}

/// The median of each figure, and the largest memory.
Sample summary(std::vector<Sample> samples) {
  const auto median = [&](double Sample::*figure) {
    std::ranges::sort(samples, {}, figure);
    return samples[samples.size() / 2].*figure;
  };
  Sample sum = samples.front();
  for (const auto figure : {&Sample::wall_s, &Sample::cpu_s, &Sample::heap_wall_s, &Sample::build_s})
    sum.*figure = median(figure);
  sum.peak_rss_bytes = std::ranges::max(samples, {}, &Sample::peak_rss_bytes).peak_rss_bytes;
  return sum;
}

void print(const Options& options, const Sample& sample) {
  const double rate = sample.num_activities / sample.wall_s, ratio = sample.wall_s / sample.heap_wall_s;
  if (options.json) {
    const nlohmann::ordered_json json = {{"engine", options.engine},
                                         {"network", options.network},
                                         {"order", options.order},
                                         {"devices", options.devices},
                                         {"micro_batches", options.micro_batches},
                                         {"num_activities", static_cast<std::int64_t>(sample.num_activities)},
                                         {"wall_s", sample.wall_s},
                                         {"cpu_s", sample.cpu_s},
                                         {"peak_rss_bytes", static_cast<std::int64_t>(sample.peak_rss_bytes)},
                                         {"activities_per_s", rate},
                                         {"heap_wall_s", sample.heap_wall_s},
                                         {"heap_ratio", ratio},
                                         {"platform_build_s", sample.build_s},
                                         {"iteration_s", sample.iteration_s}};
    std::cout << json.dump(2) << "\n";
    return;
  }
  Table table({{"figure"}, {"value", Align::right}});
  table.add(
      {"devices x micro-batches", std::to_string(options.devices) + " x " + std::to_string(options.micro_batches)});
  table.add({"activities", std::to_string(static_cast<std::int64_t>(sample.num_activities))});
  table.add({"time", significant(sample.wall_s) + " s"}, Emphasis::strong);
  table.add({"processor time", significant(sample.cpu_s) + " s"});
  table.add({"activities per second", significant(rate / 1e3) + " k"}, Emphasis::strong);
  table.add({"peak memory", significant(sample.peak_rss_bytes / (1 << 20)) + " MiB"});
  table.add({"the same on a bare heap", significant(sample.heap_wall_s) + " s"});
  table.add({"ratio to the bare heap", significant(ratio) + "x"});
  table.add({"building 4,096 devices on 64 sites", significant(sample.build_s) + " s"});
  std::cout << table.render(isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr);
}

void run(const Options& options) {
  if (options.figures) return print_figures(options.json);
  sim::find_engine(options.engine).require_network(options.network);
  std::vector<Sample> samples;
  for (int i = 0; i < options.repeat; ++i) {
    Sample sample = in_child([&] { return measure_simulation(options); });
    sample.heap_wall_s = in_child([&] { return measure_heap(options); }).heap_wall_s;
    sample.build_s = in_child(measure_build).build_s;
    samples.push_back(sample);
  }
  print(options, summary(std::move(samples)));
}

}  // namespace

std::function<void()> add_simulate(CLI::App& app) {
  auto options = std::make_shared<Options>();
  std::vector<std::string> orders, engines;
  for (const sim::EngineRow& row : sim::engine_table()) engines.emplace_back(row.name);
  for (const OrderRow& row : order_table()) orders.emplace_back(row.name);
  app.add_option("--engine", options->engine, "what replays the program")
      ->check(CLI::IsMember(engines))
      ->capture_default_str();
  app.add_option("--devices", options->devices, "stages of the pipeline, one a device")
      ->check(CLI::Range(1, 1 << 17))
      ->capture_default_str();
  app.add_option("--micro-batches", options->micro_batches, "per iteration")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--order", options->order, "pipeline order")->check(CLI::IsMember(orders))->capture_default_str();
  app.add_option("--network", options->network, sim::network_help())->capture_default_str();
  app.add_option("--repeat", options->repeat, "runs; the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--json", options->json, "JSON instead of a table");
  app.add_flag("--figures", options->figures, "all figures of the native engine beside their goals; takes a minute");
  app.footer("Example: fusion-bench simulate --devices 4096 --micro-batches 64 --json");
  return [options] { run(*options); };
}

}  // namespace fusion::bench
