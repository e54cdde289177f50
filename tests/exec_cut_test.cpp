// The promise that the product rests on: a network cut into parts trains like the uncut one, bit for bit. Here parts
// run one after another by hand, without ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <thread>

#include "core/base/error.h"
#include "exec/backend.h"
#include "exec/data.h"
#include "tests/support/exec_nets.h"

namespace fusion::exec {
namespace {

struct Trained {
  std::vector<double> losses;         ///< per step and micro-batch
  std::vector<HostTensor> gradients;  ///< of the last step, by parameter; a tied one's sums added in stage order
  std::vector<HostTensor> values;     ///< after it
};

/// One part with what it needs to run.
struct Rank {
  Part part;
  ParameterStore store;
  std::unique_ptr<Backend> backend;
};

/// Parts in a row: 1F1B's order of backward calls, plain gradient descent.
class ByHand {
 public:
  ByHand(const Graph& graph, const std::vector<Stage>& stages, const std::vector<const BackendRow*>& rows,
         const BackendOptions& options)
      : graph_(graph), data_(open_data("synthetic", graph, seed)), ranks_(stages.size()) {
    for (std::size_t i = 0; i < stages.size(); ++i) {
      Rank& rank = ranks_[i];
      rank.part = part_of(graph, stages[i]);
      rank.store = make_store(graph, rank.part, seed);
      rank.backend = rows[i % rows.size()]->make(graph, rank.part, rank.store, options);
    }
  }

  Trained train(int steps, int micro_batches) {
    Trained trained;
    for (int step = 0; step < steps; ++step) {
      for (int m = 0; m < micro_batches; ++m) trained.losses.push_back(forward(step, m, micro_batches));
      for (int m = 0; m < micro_batches; ++m) backward(m, micro_batches);
      trained.gradients = update();
    }
    trained.values.resize(graph_.parameters.size());
    for (const Rank& rank : ranks_)
      for (const ParameterId id : rank.part.parameters) trained.values[id.index()] = rank.store.values[id.index()];
    return trained;
  }

 private:
  static constexpr std::uint64_t seed = 17;

  double forward(int step, int micro_batch, int micro_batches) {
    Batch batch = batch_of(*data_, graph_, seed, (step * micro_batches + micro_batch) * graph_.micro_batch);
    Values known;
    std::optional<double> loss;
    for (Rank& rank : ranks_) {
      Values inputs;
      for (const TensorId id : rank.part.data) {
        const bool is_label = graph_.op(graph_.tensor(id).producer).kind == OpKind::label;
        inputs.emplace(id, is_label ? batch.label : batch.input);
      }
      for (const TensorId id : rank.part.inputs) inputs.emplace(id, known.at(id));
      ForwardResult result = rank.backend->forward(micro_batch, std::move(inputs), {seed, step});
      known.merge(result.outputs);
      if (result.loss) loss = result.loss;
    }
    return *loss;
  }

  /// The last stage's gradient of a tensor that several stages read comes first.
  void backward(int micro_batch, int micro_batches) {
    Values gradients;
    for (auto rank = ranks_.rbegin(); rank != ranks_.rend(); ++rank) {
      Values wanted;
      for (const TensorId id : rank->part.outputs)
        if (graph_.tensor(id).needs_gradient) wanted.insert(gradients.extract(id));
      for (auto& [id, gradient] : rank->backend->backward(micro_batch, std::move(wanted), 1.0 / micro_batches)) {
        const auto [place, is_first] = gradients.try_emplace(id, gradient);
        if (!is_first) add(place->second, gradient);
      }
    }
  }

  static void add(HostTensor& sum, const HostTensor& other) {
    for (std::size_t i = 0; i < sum.floats().size(); ++i) sum.floats()[i] += other.floats()[i];
  }

  std::vector<HostTensor> update() {
    std::vector<HostTensor> sums(graph_.parameters.size());
    for (Rank& rank : ranks_) {
      rank.backend->fold_gradients();
      for (const ParameterId id : rank.part.parameters) {
        HostTensor& sum = sums[id.index()];
        const HostTensor& gradient = rank.store.gradients[id.index()];
        sum.data.empty() ? static_cast<void>(sum = gradient) : add(sum, gradient);
      }
    }
    for (Rank& rank : ranks_) {
      for (const ParameterId id : rank.part.parameters)
        for (std::size_t i = 0; i < sums[id.index()].floats().size(); ++i)
          rank.store.values[id.index()].floats()[i] -= 0.1F * sums[id.index()].floats()[i];
      rank.backend->parameters_changed();
    }
    return sums;
  }

  const Graph& graph_;
  std::unique_ptr<DataSet> data_;
  std::vector<Rank> ranks_;
};

constexpr int num_steps = 2, num_micro_batches = 3;

Trained train(const Graph& graph, const std::vector<Stage>& stages, const std::vector<const BackendRow*>& rows,
              const BackendOptions& options = {}) {
  return ByHand(graph, stages, rows, options).train(num_steps, num_micro_batches);
}

void expect_same_bits(const Trained& a, const Trained& b, const Graph& graph, const std::string& what) {
  EXPECT_EQ(a.losses, b.losses) << what;
  for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
    EXPECT_TRUE(a.gradients[i] == b.gradients[i]) << what << ": gradient of " << graph.parameters[i].name;
    EXPECT_TRUE(a.values[i] == b.values[i]) << what << ": " << graph.parameters[i].name;
  }
}

std::string describe(const std::vector<std::size_t>& cuts) {
  std::string text = "cuts before op";
  for (const std::size_t cut : cuts) text += ' ' + std::to_string(cut);
  return text;
}

std::vector<Graph> nets() {
  return {small_mlp(), gated_net(), channels_net(), segmentation_net(), tiny_gpt2(), tiny_llama(), projected_resnet()};
}

class Cut : public testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    row_ = &find_backend(GetParam());
    try {
      const Graph graph = small_mlp();
      train(graph, stages_at(graph, {}), {row_});
    } catch (const InputError& error) {
      GTEST_SKIP() << error.what();
    }
  }
  const BackendRow* row_ = nullptr;
};

std::vector<std::string_view> backend_names() {
  std::vector<std::string_view> names;
  for (const BackendRow& row : backend_table()) names.push_back(row.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, Cut, testing::ValuesIn(backend_names()),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(Cut, OnceAnywhereEqualsUncut) {
  for (const Graph& graph : nets()) {
    const Trained whole = train(graph, stages_at(graph, {}), {row_});
    for (std::size_t cut = 1; cut < graph.ops.size(); ++cut)
      expect_same_bits(train(graph, stages_at(graph, {cut}), {row_}), whole, graph,
                       graph.name + ", " + describe({cut}));
  }
}

TEST_P(Cut, SeveralTimesEqualsUncut) {
  std::mt19937_64 random(3);
  for (const Graph& graph : nets()) {
    const Trained whole = train(graph, stages_at(graph, {}), {row_});
    for (int round = 0; round < 6; ++round) {
      const std::vector<std::size_t> cuts = random_cuts(random, graph, 2 + random() % 4);
      expect_same_bits(train(graph, stages_at(graph, cuts), {row_}), whole, graph, graph.name + ", " + describe(cuts));
    }
  }
}

/// Every op a part of its own.
TEST_P(Cut, EverywhereEqualsUncut) {
  for (const Graph& graph : nets()) {
    std::vector<std::size_t> cuts;
    for (std::size_t i = 1; i < graph.ops.size(); ++i) cuts.push_back(i);
    expect_same_bits(train(graph, stages_at(graph, cuts), {row_}), train(graph, stages_at(graph, {}), {row_}), graph,
                     graph.name);
  }
}

TEST_P(Cut, RecomputeEqualsKeeping) {
  for (const Graph& graph : nets()) {
    const std::vector<Stage> stages = stages_at(graph, {graph.ops.size() / 2});
    expect_same_bits(train(graph, stages, {row_}, {.device = "", .recompute = true}), train(graph, stages, {row_}),
                     graph, graph.name);
  }
}

/// Ranks may be threads of one process, and no backend may mind.
TEST_P(Cut, TrainsTheSameInThreadsSideBySide) {
  const Graph graph = tiny_gpt2();
  const std::vector<Stage> stages = stages_at(graph, {graph.ops.size() / 3});
  const Trained alone = train(graph, stages, {row_});
  std::vector<Trained> together(3);
  std::vector<std::thread> threads;
  for (Trained& trained : together) threads.emplace_back([&] { trained = train(graph, stages, {row_}); });
  for (std::thread& thread : threads) thread.join();
  for (const Trained& trained : together) expect_same_bits(trained, alone, graph, "in a thread");
}

/// 16-bit types exist on the wire and in the estimates alone.
TEST_P(Cut, ComputesInFp32WhateverTheGraphsDtype) {
  const Graph graph = tiny_gpt2();
  Graph half = graph;
  half.dtype = DType::bf16;
  for (Tensor& tensor : half.tensors)
    if (tensor.dtype == DType::fp32) tensor.dtype = DType::bf16;
  const std::vector<std::size_t> cuts = {7, 12};
  expect_same_bits(train(half, stages_at(half, cuts), {row_}), train(graph, stages_at(graph, cuts), {row_}), graph,
                   "bf16");
}

/// Two frameworks in one pipeline stay near one framework: losses within 1e-5 after two steps.
TEST_P(Cut, MixedWithTheOthersTrainsAlike) {
  for (const Graph& graph : nets()) {
    const std::vector<Stage> stages = stages_at(graph, {graph.ops.size() / 3, 2 * graph.ops.size() / 3});
    const Trained mixed = train(graph, stages, {row_, &find_backend("eigen")}), one = train(graph, stages, {row_});
    for (std::size_t i = 0; i < one.losses.size(); ++i)
      EXPECT_NEAR(mixed.losses[i], one.losses[i], 1e-5 * one.losses[i]) << graph.name;
  }
}

/// What training is for: on the same three micro-batches again and again the loss falls.
TEST_P(Cut, TwoStepsOfDescentChangeTheLoss) {
  const Graph graph = small_mlp();
  const Trained trained = train(graph, stages_at(graph, {5}), {row_});
  for (const double loss : trained.losses) EXPECT_TRUE(std::isfinite(loss) && loss > 0);
  EXPECT_NE(trained.losses.front(), trained.losses.back());
}

}  // namespace
}  // namespace fusion::exec
