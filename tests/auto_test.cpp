// The search over set-ups: no single policy beats it, fixed options stay, the same evaluations give the same result.
#include "core/plan/auto.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/engine/native.h"
#include "core/plan/run_config.h"
#include "core/program/lower.h"
#include "core/program/order.h"

namespace fusion {
namespace {

RunConfig run_of(const std::string& model, const std::string& platform) {
  RunConfig config;
  config.model = model;
  config.platform = platform;
  return config;
}

/// By the native engine, as `fusion-sim simulate --engine native` does it.
Seconds native_of(const RunConfig& config, const Problem& problem) {
  const Schedule schedule = make_schedule(config, problem);
  return native_iteration(lower(schedule, problem.graph, problem.costs, problem.platform), problem.platform);
}

TEST(Auto, BeatsOrTiesEverySinglePolicyOnEveryShippedPlatform) {
  for (const PlatformRow& row : list_platforms()) {
    RunConfig config = run_of("mlp", row.name);
    const AutoResult found = auto_search(config, all_axes(config), {.max_evaluations = 30});
    ASSERT_FALSE(found.best.empty()) << row.name;
    EXPECT_LE(found.num_evaluations, 30u);
    const Problem problem = load_problem(config);
    for (const PolicyRow& policy : policy_table()) try {
        config.policy = policy.name;
        EXPECT_LE(found.best.front().iteration, native_of(config, problem)) << row.name << " " << policy.name;
      } catch (const Infeasible&) {
        // It has no plan to be compared with.
      }
  }
}

TEST(Auto, WhatItReportsIsWhatItsSetUpTakes) {
  const RunConfig config = run_of("mlp", "lan4");
  const AutoResult found = auto_search(config, all_axes(config), {});
  EXPECT_TRUE(std::ranges::is_sorted(found.best, {}, &Trial::iteration));
  for (const Trial& trial : found.best) {
    EXPECT_EQ(trial.config.micro_batches * trial.config.model_options.micro_batch, 8);
    EXPECT_EQ(trial.iteration, native_of(trial.config, load_problem(trial.config)));
  }
}

/// U-Net, 128 pictures of 512 x 512: about 37.8 ms for 4 of them on one device, 1.21 s for all. A cut would send
/// 4 x 32 x 512 x 512 floats, 134 MB, or a quarter of it deeper down, for each 4: seconds over 100 Mbps. Two replicas
/// halve the time and exchange 232,597 gradients, 0.93 MB each way: 0.07 s at 100 Mbps by a ring, twice that by a
/// server. The MLP has millions of parameters and next to nothing to compute: one device alone.
TEST(Auto, ReplicatesWhatComputesMuchAndExchangesLittle) {
  const auto replicas_of = [](const std::string& model, int micro_batches, std::int64_t micro_batch) {
    RunConfig config = run_of(model, "pair");
    config.micro_batches = micro_batches;
    config.model_options.micro_batch = micro_batch;
    if (model != "mlp") config.model_options.image_size = 512;
    std::vector<Axis> axes = all_axes(config);
    std::erase_if(axes, [](const Axis& axis) { return axis.key != "replicas"; });
    const AutoResult found = auto_search(config, axes, {});
    EXPECT_EQ(found.num_evaluations, 2u) << "1 and 2: there are no more devices";
    return found.best.front().schedule.replicas;
  };
  EXPECT_EQ(replicas_of(FUSION_SOURCE_DIRECTORY "/experiments/unet.toml", 16, 8), 2);
  EXPECT_EQ(replicas_of("mlp", 8, 1), 1);
}

/// All of a small grid is looked at, and its best found.
TEST(Auto, FindsTheBestOfAGridItCanExhaust) {
  const RunConfig config = run_of("mlp", "pair");
  const std::vector<Axis> axes = {{"policy", {"equal-number", "op-fence"}},
                                  {"order", {"gpipe", "1f1b"}},
                                  {"micro-batches", {"2", "4", "8"}},
                                  {"compress", {"none", "fp16"}}};
  const AutoResult found = auto_search(config, axes, {.max_evaluations = 100});
  EXPECT_EQ(found.num_setups, 24u);
  EXPECT_EQ(found.num_evaluations, 24u);
  Seconds least(1e300);
  for (const std::string& policy : axes[0].values)
    for (const std::string& order : axes[1].values)
      for (const std::string& m : axes[2].values)
        for (const std::string& compress : axes[3].values) {
          RunConfig each = config;
          set_option(each, "policy", policy);
          set_option(each, "order", order);
          set_option(each, "micro-batches", m);
          set_option(each, "compress", compress);
          each.model_options.micro_batch = 8 / each.micro_batches;
          least = std::min(least, native_of(each, load_problem(each)));
        }
  EXPECT_EQ(found.best.front().iteration, least);
}

TEST(Auto, LeavesAloneWhatIsNoAxis) {
  RunConfig config = run_of("mlp", "lan4");
  config.order = "gpipe";
  config.compress = "fp16";
  std::vector<Axis> axes = all_axes(config);
  std::erase_if(axes, [](const Axis& axis) { return axis.key != "policy"; });
  for (const Trial& trial : auto_search(config, axes, {}).best) {
    EXPECT_EQ(trial.schedule.order, "gpipe");
    EXPECT_EQ(trial.schedule.compress, "fp16");
    EXPECT_EQ(trial.schedule.micro_batches, 8);
  }
}

TEST(Auto, IsDecidedBySeedAndEvaluationsAlone) {
  RunConfig config = run_of("mlp", "testbed-1");
  const std::vector<Axis> axes = all_axes(config);
  const AutoResult whole = auto_search(config, axes, {.max_evaluations = 12});
  int asked = 0;
  const AutoResult timed = auto_search(config, axes, {.is_time_up = [&] { return ++asked == 12; }});
  EXPECT_EQ(timed.num_evaluations, 12u);
  ASSERT_EQ(whole.best.size(), timed.best.size());
  for (std::size_t i = 0; i < whole.best.size(); ++i) EXPECT_EQ(whole.best[i].schedule, timed.best[i].schedule);
}

TEST(Auto, SaysWhyWhereNothingFits) {
  RunConfig config = run_of("gpt2-xl", "pair");
  config.devices = 1;
  EXPECT_THROW(auto_search(config, {{"policy", {"equal-number"}}}, {}), Infeasible);
}

}  // namespace
}  // namespace fusion
