// fusion-bench-train: what one rank of the executor costs over the same model written directly in libtorch. Both take
// the same batches, add up the same micro-batches and make the same optimizer step; they alternate, so that what else
// the machine does hits both, and medians are compared.
#include <ATen/Parallel.h>
#include <torch/nn/functional.h>
#include <torch/optim/adam.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "core/base/error.h"
#include "core/graph/models_text.h"
#include "core/graph/models_vision.h"
#include "core/program/lower.h"
#include "core/report/version.h"
#include "exec/backend.h"
#include "exec/execute_council.h"
#include "exec/execute_walk.h"
#include "exec/transport_threads.h"

namespace fusion::exec {
namespace {

using Clock = std::chrono::steady_clock;
using at::Tensor;

struct Options {
  std::int64_t mlp_samples = 64, gpt2_samples = 8;  ///< of a micro-batch
  int micro_batches = 4, steps = 20;
};

constexpr Gpt2 small_gpt2() {
  return {.vocabulary = 256,
          .positions = 128,
          .features = 128,
          .layers = 4,
          .heads = 4,
          .embedding_dropout = 0,
          .residual_dropout = 0};
}

/// The model in libtorch's own functions, on parameters of the graph's names.
struct Direct {
  std::map<std::string, Tensor> parameters;
  std::vector<Tensor> list;

  Direct(const Graph& graph, const ParameterStore& store) {
    for (std::size_t p = 0; p < graph.parameters.size(); ++p) {
      const auto values = store.values[p].floats();
      Tensor tensor = at::empty(graph.parameters[p].shape);
      std::ranges::copy(values, tensor.data_ptr<float>());
      list.push_back(parameters[graph.parameters[p].name] = tensor.requires_grad_());
    }
  }
  const Tensor& operator[](const std::string& name) const { return parameters.at(name); }
  Tensor linear(const std::string& at, const Tensor& x) const {
    return at::linear(x, parameters.at(at + ".weight"), parameters.at(at + ".bias"));
  }
  Tensor norm(const std::string& at, const Tensor& x) const {
    return at::layer_norm(x, {x.size(-1)}, parameters.at(at + ".weight"), parameters.at(at + ".bias"), 1e-5);
  }
};

Tensor mlp_loss(const Direct& net, const Tensor& input, const Tensor& label) {
  Tensor x = input.reshape({input.size(0), -1});
  for (const char* layer : {"hidden.0", "hidden.1", "hidden.2"}) x = at::relu(net.linear(layer, x));
  return at::cross_entropy_loss(net.linear("head", x), label);
}

Tensor gpt2_loss(const Direct& net, const Tensor& tokens, const Tensor& label, const Gpt2& model) {
  const std::int64_t b = tokens.size(0), t = tokens.size(1), c = model.features, d = c / model.heads;
  Tensor x = at::embedding(net["wte.weight"], tokens) + net["wpe.weight"].narrow(0, 0, t);
  const Tensor mask = at::triu(at::full({t, t}, -INFINITY), 1);
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const std::string at = "h." + std::to_string(layer);
    const auto qkv = net.linear(at + ".attn.c_attn", net.norm(at + ".ln_1", x)).split(c, -1);
    const auto by_head = [&](const Tensor& y) { return y.reshape({b, t, model.heads, d}).transpose(1, 2); };
    const Tensor scores = at::matmul(by_head(qkv[0]), by_head(qkv[1]).transpose(2, 3)) / std::sqrt(double(d)) + mask;
    const Tensor attended = at::matmul(at::softmax(scores, -1), by_head(qkv[2])).transpose(1, 2).reshape({b, t, c});
    x = net.linear(at + ".attn.c_proj", attended) + x;
    const Tensor inner = at::gelu(net.linear(at + ".mlp.c_fc", net.norm(at + ".ln_2", x)), "tanh");
    x = net.linear(at + ".mlp.c_proj", inner) + x;
  }
  const Tensor logits = at::linear(net.norm("ln_f", x), net["wte.weight"]);
  return at::cross_entropy_loss(logits.reshape({b * t, -1}), label.reshape({-1}));
}

Tensor tensor_of(HostTensor& host) {
  return host.dtype == DType::int64 ? at::from_blob(host.data.data(), host.shape, at::kLong)
                                    : at::from_blob(host.data.data(), host.shape, at::kFloat);
}

double median(std::vector<double> times) {
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

template <class Work>
double seconds(Work work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Program one_stage(const Graph& graph, const Platform& platform, int micro_batches) {
  Schedule schedule;
  schedule.order = "1f1b";
  schedule.micro_batches = micro_batches;
  schedule.stages.push_back({DeviceId(0), 0, {}});
  for (std::size_t op = 0; op < graph.ops.size(); ++op) schedule.stages[0].ops.emplace_back(op);
  return lower(schedule, graph, estimate(graph), platform);
}

template <class Loss>
void compare(const char* name, const Graph& graph, const Options& options, Loss loss_of) {
  const Platform platform = load_platform("lan4");
  const Program program = one_stage(graph, platform, options.micro_batches);
  const auto data = open_data("synthetic", graph, 1);
  TrainOptions train;
  train.optimizer.kind = Optimizer::adam;
  const auto transports = make_thread_transports(1);
  Walk walk(program, graph, *transports[0], find_backend("torch"), data.get(), train);
  const std::function<float()> no_clipping = [] { return 1.0F; };

  at::set_num_threads(1);
  const Direct direct(graph, make_store(graph, walk.part(), train.seed));
  torch::optim::Adam adam(direct.list, torch::optim::AdamOptions(train.optimizer.learning_rate));
  const auto step_directly = [&](std::int64_t step) {
    double sum = 0;
    for (int m = 0; m < options.micro_batches; ++m) {
      Batch batch = batch_of(*data, graph, train.seed, (step * options.micro_batches + m) * graph.micro_batch);
      const Tensor loss = loss_of(direct, tensor_of(batch.input), tensor_of(batch.label)) / options.micro_batches;
      sum += loss.item<float>();
      loss.backward();
    }
    adam.step();
    for (const Tensor& parameter : direct.list) parameter.mutable_grad().reset();  // cheaper than zeros to add to
    return sum;
  };

  constexpr int warm_up = 3;
  std::vector<double> ours, theirs;
  double our_loss = 0, their_loss = 0;
  for (int step = -warm_up; step < options.steps; ++step) {
    const std::int64_t number = step + warm_up;
    const double mine = seconds([&] { our_loss = walk.run(number, no_clipping); });
    const double other = seconds([&] { their_loss = step_directly(number); });
    if (step < 0) continue;
    ours.push_back(mine);
    theirs.push_back(other);
  }
  std::printf("%-6s executor %8.3f ms  libtorch %8.3f ms  ratio %.3f   loss %.6f and %.6f\n", name, median(ours) * 1e3,
              median(theirs) * 1e3, median(ours) / median(theirs), our_loss, their_loss);
}

int run(int argc, char** argv) {
  CLI::App app("One rank of the executor against the same model written directly in libtorch.", "fusion-bench-train");
  app.set_version_flag("--version", std::string(version()));
  Options options;
  app.add_option("--steps", options.steps, "of each, in turn")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--micro-batches", options.micro_batches, "per step")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--mlp-samples", options.mlp_samples, "of a micro-batch of the MLP")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--gpt2-samples", options.gpt2_samples, "of a micro-batch of the GPT-2")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.footer("Example:\n  fusion-bench-train --steps 50");
  CLI11_PARSE(app, argc, argv);
  compare("mlp", build_mlp({.micro_batch = options.mlp_samples}), options, mlp_loss);
  const Gpt2 model = small_gpt2();
  compare("gpt2", build_gpt2("gpt2", model, {.micro_batch = options.gpt2_samples}, "gpt2"), options,
          [&](const Direct& net, const Tensor& tokens, const Tensor& label) {
            return gpt2_loss(net, tokens, label, model);
          });
  return 0;
}

}  // namespace
}  // namespace fusion::exec

int main(int argc, char** argv) {
  try {
    return fusion::exec::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fusion-bench-train: %s\n", error.what());
    return static_cast<int>(fusion::ExitCode::runtime_fault);
  }
}
