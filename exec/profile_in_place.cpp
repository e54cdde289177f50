#include "exec/profile_in_place.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "exec/optimizer.h"

namespace fusion::exec {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int num_micro_batches = 4, warm_up = 2;

/// The stage of a rank that has everything.
Stage whole(const Graph& graph) {
  Stage stage{.device = {}, .replica = 0, .ops = {}};
  for (std::size_t i = 0; i < graph.ops.size(); ++i) stage.ops.emplace_back(i);
  return stage;
}

template <class Work>
Seconds time_of(Seconds wait, Work work) {
  std::this_thread::sleep_for(std::chrono::duration<double>(wait.value));
  const auto start = Clock::now();
  work();
  return Seconds(std::chrono::duration<double>(Clock::now() - start).count());
}

/// A rank alone: what execute_walk.h is without peers and data.
class Rank {
 public:
  Rank(const Graph& graph, const BackendRow& row, const ProfileOptions& options)
      : part_(part_of(graph, whole(graph))),
        store_(make_store(graph, part_, options.seed)),
        states_(graph.parameters.size()),
        backend_(row.make(graph, part_, store_, options.backend)),
        seed_(options.seed) {
    for (const ParameterId p : part_.parameters) states_[p.index()] = fresh_state(Optimizer::adam, size_of(p));
    std::mt19937_64 random(seed_);
    for (const TensorId tensor : part_.data) data_[tensor] = noise(graph.tensor(tensor), random);
  }

  void forward(int micro_batch) { backend_->forward(micro_batch, data_, {seed_, step_}); }
  void backward(int micro_batch) { backend_->backward(micro_batch, {}, 1.0 / num_micro_batches); }
  void fold() { backend_->fold_gradients(); }

  void update() {
    ++step_;
    for (const ParameterId p : part_.parameters)
      exec::update({}, step_, 1, store_.values[p.index()].floats(), store_.gradients[p.index()].floats(),
                   states_[p.index()]);
    backend_->parameters_changed();
  }

  std::size_t num_parameters() const {
    std::size_t sum = 0;
    for (const ParameterId p : part_.parameters) sum += size_of(p);
    return sum;
  }

 private:
  std::size_t size_of(ParameterId p) const { return store_.values[p.index()].floats().size(); }

  Part part_;
  ParameterStore store_;
  std::vector<OptimizerState> states_;
  std::unique_ptr<Backend> backend_;
  std::uint64_t seed_;
  std::int64_t step_ = 0;
  Values data_;
};

}  // namespace

PassProfile profile_passes(const Graph& graph, const BackendRow& row, const ProfileOptions& options, Seconds wait) {
  Rank rank(graph, row, options);
  std::vector<Seconds> forward, backward, update;
  for (int step = -warm_up; step < options.repeats; ++step) {
    Seconds forward_sum{}, backward_sum{};
    for (int m = 0; m < num_micro_batches; ++m) forward_sum += time_of(wait, [&] { rank.forward(m); });
    for (int m = 0; m < num_micro_batches; ++m) backward_sum += time_of(wait, [&] { rank.backward(m); });
    rank.fold();
    const Seconds updating = time_of(wait, [&] { rank.update(); });
    if (step < 0) continue;
    forward.push_back(forward_sum / num_micro_batches);
    backward.push_back(backward_sum / num_micro_batches);
    update.push_back(updating);
  }
  const double traffic =
      2.0 * static_cast<double>(rank.num_parameters()) * static_cast<double>(bytes_per_parameter({}));
  return {median(std::move(forward)), median(std::move(backward)),
          BytesPerSecond(traffic / median(std::move(update)).value)};
}

std::vector<OpProfile> scaled_to(std::vector<OpProfile> ops, const PassProfile& passes) {
  Seconds forward{}, backward{};
  for (const OpProfile& op : ops) {
    forward += op.forward;
    backward += op.backward;
  }
  for (OpProfile& op : ops) {
    op.forward = op.forward * (passes.forward / forward);
    if (op.backward > Seconds(0)) op.backward = op.backward * (passes.backward / backward);
  }
  return ops;
}

}  // namespace fusion::exec
