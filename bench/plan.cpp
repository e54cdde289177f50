// fusion-bench plan: what planning costs, and how good its plans are.
//
//   time     wall time of op-fence over devices x ops, beside chain-optimal, and of min_bottleneck beside the textbook
//            O(P N^2) dynamic programme for the same bottleneck where that ends in reasonable time
//   louvain  one clustering of a dense graph
//   gap      excess of op-fence over exhaustive search on small random problems, by predict()
//   dt-fm    score of op-fence's groups beside that of DT-FM's genetic search, by DT-FM's cost model, on its five cases
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "bench/bench.h"
#include "bench/timing.h"
#include "core/base/error.h"
#include "core/graph/builder.h"
#include "core/plan/bounds.h"
#include "core/plan/chain_optimal.h"
#include "core/plan/dt_fm.h"
#include "core/plan/louvain.h"
#include "core/plan/op_fence.h"
#include "core/plan/op_fence_groups.h"
#include "core/plan/op_fence_line.h"
#include "core/plan/partition.h"
#include "core/plan/plan.h"
#include "core/platform/platform.h"
#include "core/report/table.h"
#include "tests/support/exhaustive.h"
#include "tests/support/random_problem.h"

namespace fusion::bench {
namespace {

/// Residual blocks of four ops each, of unequal widths.
Graph residual_network(std::size_t num_ops, std::mt19937_64& random) {
  GraphBuilder net("residual", 1);
  constexpr std::int64_t tokens = 256, features = 256;
  TensorId x = net.input("x", {1, tokens, features});
  std::size_t made = 0;
  for (std::size_t block = 0; made + 4 <= num_ops; ++block, made += 4) {
    const std::string name = std::to_string(block);
    const std::int64_t inner = 64 * std::uniform_int_distribution<std::int64_t>(2, 16)(random);
    TensorId y = net.linear(name + ".up", x, inner);
    y = net.unary(OpKind::gelu, name + ".gelu", y);
    y = net.linear(name + ".down", y, features);
    x = net.add(name + ".add", x, y);
  }
  for (; made < num_ops; ++made) x = net.linear("tail" + std::to_string(made), x, features);
  return std::move(net).finish();
}

LinkPair add_links(Platform& platform, const std::string& name, BytesPerSecond bandwidth, Seconds latency) {
  platform.links.push_back({name + ".out", bandwidth, latency, true});
  platform.links.push_back({name + ".in", bandwidth, latency, true});
  return {LinkId(platform.links.size() - 2), LinkId(platform.links.size() - 1)};
}

/// Sites of hosts of four GPUs; the type goes by host, uplinks from 50 Mbps to 5 Gbps.
Platform geo_platform(std::size_t num_devices, std::mt19937_64& random) {
  constexpr std::size_t per_host = 4, hosts_per_site = 4;
  Platform platform;
  platform.name = "geo";
  for (const char* name : {"RTX 4090", "RTX 3090", "RTX 3080", "RTX 2080 Ti"}) platform.gpus.push_back(find_gpu(name));
  for (std::size_t d = 0; d < num_devices; ++d) {
    if (d % (per_host * hosts_per_site) == 0) {
      const std::string name = "s" + std::to_string(platform.sites.size());
      const double mbps = 50 * std::pow(10, std::uniform_real_distribution(0.0, 2.0)(random));
      const Seconds latency(std::uniform_real_distribution(0.002, 0.05)(random));
      platform.sites.push_back({name, {}, add_links(platform, name, BytesPerSecond(mbps * 1e6 / 8), latency)});
    }
    if (d % per_host == 0) {
      const HostId host(platform.hosts.size());
      const std::string name = "h" + std::to_string(host.value);
      platform.sites.back().hosts.push_back(host);
      platform.hosts.push_back({name,
                                SiteId(platform.sites.size() - 1),
                                {},
                                add_links(platform, name, BytesPerSecond(1.25e9), Seconds(1e-4))});
    }
    const HostId host(platform.hosts.size() - 1);
    const std::string name = platform.hosts.back().name + ".gpu" + std::to_string(d % per_host);
    platform.hosts.back().devices.emplace_back(d);
    platform.devices.push_back({name, GpuId(host.index() * 7 % platform.gpus.size()), host});
    platform.buses.emplace_back(add_links(platform, name, BytesPerSecond(1.25e10), Seconds(1e-5)));
  }
  return platform;
}

/// f(p, i) = min over j of max(f(p - 1, j), part, transfer): what a first implementation would do.
double textbook_bottleneck(const Line& line, std::size_t num_seats, double s_per_byte) {
  const std::size_t n = line.num_units();
  const auto& time = line.time_s.front();
  std::vector<double> before(n + 1, std::numeric_limits<double>::infinity()), here(n + 1);
  before[0] = 0;
  for (std::size_t p = 0; p < num_seats; ++p) {
    std::fill(here.begin(), here.end(), std::numeric_limits<double>::infinity());
    for (std::size_t i = 1; i <= n; ++i)
      for (std::size_t j = 0; j < i; ++j)
        here[i] = std::min(here[i], std::max({before[j], time[i] - time[j], line.forward_bytes[j] * s_per_byte}));
    std::swap(before, here);
  }
  return before[n];
}

struct Timing {
  std::size_t devices = 0, ops = 0, devices_used = 0;
  double op_fence_s = 0, chain_optimal_s = 0, lower_bound_s = 0;
  std::optional<double> textbook_s, min_bottleneck_s;
};

Timing time_planning(std::size_t devices, std::size_t ops, const Compression& compression) {
  std::mt19937_64 random(devices * 100'003 + ops);
  Problem problem{residual_network(ops, random), {}, geo_platform(devices, random)};
  problem.costs = estimate(problem.graph);
  Schedule request;
  request.order = "1f1b";
  const PolicyInput input{problem.graph, problem.costs, problem.platform, request, compression};
  Timing timing;
  timing.devices = devices;
  timing.ops = problem.graph.ops.size() - 1;
  timing.op_fence_s = seconds_of([&] { timing.devices_used = op_fence(input).size(); });
  timing.chain_optimal_s = seconds_of([&] { chain_optimal(input); });
  timing.lower_bound_s = seconds_of([&] { lower_bound(input); });

  // Equal devices and hops, no memory limit: the problem that both can solve.
  constexpr std::size_t largest = 200'000'000;
  const Line line = lay_out(input, linear_order(problem.graph));
  const std::size_t n = line.num_units(), num_seats = std::min(devices, n);
  if (num_seats * n * n > largest) return timing;
  const std::vector<Seat> seats(num_seats, Seat{0, std::numeric_limits<double>::infinity(), 1});
  const std::vector<Hop> hops(num_seats - 1, Hop{{0, 1e-9}, {0, 0}});
  double textbook = 0, ours = 0;
  timing.textbook_s = seconds_of([&] { textbook = textbook_bottleneck(line, num_seats, 1e-9); });
  timing.min_bottleneck_s = seconds_of([&] { ours = min_bottleneck(line, seats, hops)->bottleneck_s; });
  check(std::abs(textbook - ours) <= 1e-9 * textbook, "two algorithms for one bottleneck agree");
  return timing;
}

Gap gap_on(bool chain, int cases) {
  std::mt19937_64 random(chain ? 101 : 102);
  Gap gap;
  for (int i = 0; i < cases; ++i) add_to(gap, random_problem(random, {.chain = chain}).input());
  return gap;
}

struct Size {
  std::size_t devices, ops;
};

constexpr std::size_t louvain_nodes = 1000;

/// Seconds for one clustering of a dense random graph.
double time_louvain() {
  std::mt19937_64 random(7);
  SquareMatrix weights(louvain_nodes);
  for (std::size_t i = 0; i < weights.size; ++i)
    for (std::size_t j = 0; j < weights.size; ++j)
      weights.at(i, j) = std::uniform_real_distribution(1.0, 2.0)(random) * (i / 20 == j / 20 ? 10 : 1);
  return seconds_of([&] { louvain(weights, 1); });
}

/// One of DT-FM's published cases, 8 x 8 devices, at its volumes.
struct Rivalry {
  std::string platform;
  DtFmSearch theirs, ours;
  double theirs_s = 0, ours_s = 0;
};

Rivalry rivalry_on(const std::string& name) {
  const Platform platform = load_platform(name);
  std::vector<DeviceId> devices;
  for (std::size_t d = 0; d < platform.devices.size(); ++d) devices.emplace_back(d);
  const DtFmPrices prices = dt_fm_prices(platform, std::move(devices), 8,
                                         {.data_parallel = Bytes(650'000'000), .pipeline = Bytes(471'000'000)});
  Rivalry rivalry{name, {}, {}, 0, 0};
  rivalry.theirs_s = seconds_of([&] { rivalry.theirs = dt_fm_genetic(prices); });
  rivalry.ours_s = seconds_of([&] { rivalry.ours = op_fence_groups(prices); });
  return rivalry;
}

struct Results {
  std::vector<Timing> timings;
  double louvain_s = 0;
  std::vector<std::pair<std::string, Gap>> gaps;
  std::vector<Rivalry> rivalries;
};

const std::vector<Size> sizes = {{4, 200}, {8, 200}, {48, 200}, {48, 1000}, {100, 1000}, {1000, 1000}, {1000, 10'000}};

std::string milliseconds(double s) { return significant(1e3 * s); }
std::string milliseconds(std::optional<double> s) { return s ? milliseconds(*s) : ""; }

void print_tables(const Results& results) {
  Table time({{"devices", Align::right},
              {"ops", Align::right},
              {"op-fence ms", Align::right},
              {"uses", Align::right},
              {"chain-optimal ms", Align::right},
              {"lower bound ms", Align::right},
              {"min_bottleneck ms", Align::right},
              {"textbook ms", Align::right},
              {"ratio", Align::right}});
  for (const Timing& t : results.timings)
    time.add({std::to_string(t.devices), std::to_string(t.ops), milliseconds(t.op_fence_s),
              std::to_string(t.devices_used), milliseconds(t.chain_optimal_s), milliseconds(t.lower_bound_s),
              milliseconds(t.min_bottleneck_s), milliseconds(t.textbook_s),
              t.textbook_s ? significant(*t.textbook_s / *t.min_bottleneck_s) : ""});
  std::cout << time.render(false) << "\nlouvain, " << louvain_nodes
            << " nodes, dense: " << milliseconds(results.louvain_s) << " ms\n\n";
  Table gap({{"gap of op-fence to exhaustive search"},
             {"cases", Align::right},
             {"mean", Align::right},
             {"worst", Align::right},
             {"optimal", Align::right},
             {"missed", Align::right}});
  for (const auto& [kind, g] : results.gaps)
    gap.add({kind, std::to_string(g.feasible), significant(100 * g.mean()) + " %", significant(100 * g.worst) + " %",
             percent(g.optimal / std::max(1.0, static_cast<double>(g.feasible))), std::to_string(g.missed)});
  std::cout << gap.render(false) << '\n';
  Table rivals({{"DT-FM's cost model"},
                {"dt-fm s", Align::right},
                {"evaluations", Align::right},
                {"ms", Align::right},
                {"op-fence s", Align::right},
                {"evaluations", Align::right},
                {"ms", Align::right}});
  for (const Rivalry& r : results.rivalries)
    rivals.add({r.platform, significant(r.theirs.score.total().value), std::to_string(r.theirs.num_evaluations),
                milliseconds(r.theirs_s), significant(r.ours.score.total().value),
                std::to_string(r.ours.num_evaluations), milliseconds(r.ours_s)});
  std::cout << rivals.render(false);
}

void print_json(const Results& results) {
  nlohmann::ordered_json root;
  for (const Timing& t : results.timings) {
    nlohmann::ordered_json row = {{"devices", t.devices},
                                  {"ops", t.ops},
                                  {"op_fence_s", t.op_fence_s},
                                  {"devices_used", t.devices_used},
                                  {"chain_optimal_s", t.chain_optimal_s},
                                  {"lower_bound_s", t.lower_bound_s}};
    if (t.textbook_s) {
      row["min_bottleneck_s"] = *t.min_bottleneck_s;
      row["textbook_s"] = *t.textbook_s;
    }
    root["time"].push_back(std::move(row));
  }
  root["louvain_s"] = results.louvain_s;
  for (const auto& [kind, g] : results.gaps)
    root["gap"].push_back({{"kind", kind},
                           {"cases", g.feasible},
                           {"mean", g.mean()},
                           {"worst", g.worst},
                           {"optimal", g.optimal},
                           {"missed", g.missed}});
  for (const Rivalry& r : results.rivalries)
    root["dt_fm"].push_back({{"platform", r.platform},
                             {"dt_fm_score_s", r.theirs.score.total().value},
                             {"dt_fm_evaluations", r.theirs.num_evaluations},
                             {"op_fence_score_s", r.ours.score.total().value},
                             {"op_fence_evaluations", r.ours.num_evaluations}});
  std::cout << root.dump(2) << '\n';
}

}  // namespace

std::function<void()> add_plan(CLI::App& app) {
  struct Options {
    bool json = false;
    int cases = 250;
    std::string compress = "none";
    std::size_t devices = 0, ops = 0;
  };
  const auto options = std::make_shared<Options>();
  app.add_flag("--json", options->json, "print JSON instead of tables");
  app.add_option("--cases", options->cases, "small problems of each kind for the gap")->check(CLI::Range(0, 100'000));
  app.add_option("--compress", options->compress, "compression that the timed plans are for");
  CLI::Option* devices = app.add_option("--devices", options->devices, "time this many devices alone, with --ops");
  CLI::Option* ops = app.add_option("--ops", options->ops, "time this many ops alone, with --devices");
  devices->check(CLI::Range(1, 100'000))->needs(ops);
  ops->check(CLI::Range(1, 1'000'000))->needs(devices);
  app.footer("Example: fusion-bench plan --devices 1000 --ops 10000 --cases 0");
  return [options] {
    RunConfig config;
    config.compress = options->compress;
    const Compression compression = compression_of(config);
    std::vector<Size> grid = sizes;
    if (options->devices > 0) grid = {{options->devices, options->ops}};
    Results results;
    time_planning(8, 100, compression);  // warm
    for (const Size& size : grid) results.timings.push_back(time_planning(size.devices, size.ops, compression));
    results.louvain_s = time_louvain();
    results.gaps = {{"chains", gap_on(true, options->cases)}, {"branching", gap_on(false, options->cases)}};
    for (const char* name : {"dtfm-1", "dtfm-2", "dtfm-3", "dtfm-4", "dtfm-5"})
      results.rivalries.push_back(rivalry_on(name));
    options->json ? print_json(results) : print_tables(results);
  };
}

}  // namespace fusion::bench
