// fusion-bench sweep: a sweep as `fusion-sim sweep` runs it, one worker, from reading the model to the last row on
// disk.
//
// Each set-up is another random placement of GPT-2 on the 48 devices of testbed-3. Beside it the same on SimGrid, of
// fewer set-ups, and a bare heap loop that replays the same programs and does nothing else.
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/bench.h"
#include "bench/heap_engine.h"
#include "bench/timing.h"
#include "core/program/lower.h"
#include "core/report/table.h"
#include "sim/sweep.h"
#include "tests/support/temporary_folder.h"

namespace fusion::bench {
namespace {

struct Options {
  std::size_t set_ups = 1000, simgrid_set_ups = 25;
  int micro_batches = 64;
  bool json = false;
};

RunConfig config_of(const Options& options) {
  RunConfig config;
  config.model = "gpt2";
  config.platform = "testbed-3";
  config.policy = "random";
  config.micro_batches = options.micro_batches;
  return config;
}

std::vector<sim::Axis> seeds(std::size_t count, const std::string& engine) {
  sim::Axis seed{"seed", {}, {}};
  for (std::size_t i = 1; i <= count; ++i) seed.values.push_back(std::to_string(i));
  return {{"engine", {engine}, {}}, seed};
}

double time_sweep(const Options& options, std::size_t count, const std::string& engine) {
  const TemporaryFolder folder;
  return seconds_of([&] {
    const auto all = sim::set_ups(config_of(options), seeds(count, engine));
    sim::sweep(all, folder.path(), 1, [](const sim::SetUp&) {});
  });
}

/// The replay alone; problems, plans and programs are made before.
double time_heap(const Options& options) {
  RunConfig config = config_of(options);
  const Problem problem = load_problem(config);
  double total_s = 0;
  for (std::size_t i = 1; i <= options.set_ups; ++i) {
    config.seed = i;
    const Program program = lower(make_schedule(config, problem), problem.graph, problem.costs, problem.platform);
    total_s += seconds_of([&] { run_on_heap(program, problem.platform); });
  }
  return total_s;
}

void run(const Options& options) {
  const double native_s = time_sweep(options, options.set_ups, "native"),
               simgrid_s = time_sweep(options, options.simgrid_set_ups, "simgrid"), heap_s = time_heap(options);
  if (options.json) {
    const nlohmann::ordered_json json = {{"micro_batches", options.micro_batches},
                                         {"set_ups", options.set_ups},
                                         {"native_s", native_s},
                                         {"heap_s", heap_s},
                                         {"simgrid_set_ups", options.simgrid_set_ups},
                                         {"simgrid_s", simgrid_s}};
    std::cout << json.dump(2) << "\n";
    return;
  }
  Table table({{"48 devices x " + std::to_string(options.micro_batches) + " micro-batches"},
               {"set-ups", Align::right},
               {"time", Align::right},
               {"each", Align::right}});
  const auto add = [&](const std::string& what, std::size_t count, double time_s) {
    table.add({what, std::to_string(count), significant(time_s) + " s",
               significant(1e3 * time_s / static_cast<double>(count)) + " ms"});
  };
  add("sweep, native", options.set_ups, native_s);
  add("sweep, SimGrid", options.simgrid_set_ups, simgrid_s);
  add("bare heap, replay alone", options.set_ups, heap_s);
  std::cout << table.render(isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr);
}

}  // namespace

std::function<void()> add_sweep(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("--set-ups", options->set_ups, "on the native engine")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--simgrid-set-ups", options->simgrid_set_ups, "on SimGrid")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--micro-batches", options->micro_batches, "per iteration")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_flag("--json", options->json, "JSON instead of a table");
  app.footer("Example: fusion-bench sweep --simgrid-set-ups 100");
  return [options] { run(*options); };
}

}  // namespace fusion::bench
