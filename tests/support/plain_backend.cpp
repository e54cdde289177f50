#include "tests/support/plain_backend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "core/base/error.h"
#include "exec/dropout.h"

namespace fusion::exec {
namespace {

constexpr std::array kinds = {OpKind::input, OpKind::label, OpKind::embedding, OpKind::linear,
                              OpKind::relu,  OpKind::add,   OpKind::dropout,   OpKind::cross_entropy};

bool has(OpKind kind) { return std::ranges::find(kinds, kind) != kinds.end(); }

using Floats = std::span<float>;

class PlainBackend : public Backend {
 public:
  PlainBackend(const Graph& graph, const Part& part, ParameterStore& store)
      : graph_(graph), part_(part), store_(store) {
    for (const OpId id : part.ops) {
      if (!has(graph.op(id).kind)) throw InputError(graph.op(id).name, "", "an op that the plain backend lacks");
      for (const ParameterId p : graph.op(id).parameters)
        sums_[{p, id}].resize(store.values[p.index()].floats().size());
    }
  }

  ForwardResult forward(int micro_batch, Values inputs, const RunSeed& seed) override {
    check(!held_.contains(micro_batch), "a micro-batch that is held already");
    Held& held = held_[micro_batch];
    held.seed = seed;
    held.values = std::move(inputs);
    ForwardResult result;
    for (const OpId id : part_.ops) {
      const Op& op = graph_.op(id);
      if (op.kind == OpKind::input || op.kind == OpKind::label) continue;
      held.values[op.outputs[0]] = HostTensor::zeros(graph_.tensor(op.outputs[0]).shape);
      run(op, id, micro_batch, held);
      if (op.kind == OpKind::cross_entropy) result.loss = held.values[op.outputs[0]].floats()[0];
    }
    for (const TensorId tensor : part_.outputs) result.outputs[tensor] = held.values.at(tensor);
    return result;
  }

  Values backward(int micro_batch, Values gradients, double loss_scale) override {
    const auto held = held_.extract(micro_batch);
    check(!held.empty(), "a micro-batch that is not held");
    for (auto op = part_.ops.rbegin(); op != part_.ops.rend(); ++op)
      if (needs_gradient(*op)) differentiate(*op, micro_batch, held.mapped(), gradients, loss_scale);
    Values of_inputs;
    for (const TensorId tensor : part_.inputs)
      if (graph_.tensor(tensor).needs_gradient) of_inputs[tensor] = std::move(gradients.at(tensor));
    return of_inputs;
  }

  void fold_gradients() override {
    for (const ParameterId p : part_.parameters) {
      const Floats total = store_.gradients[p.index()].floats();
      std::ranges::fill(total, 0.0F);
      bool first = true;
      for (auto& [user, sum] : sums_) {
        if (user.first != p) continue;
        for (std::size_t i = 0; i < sum.size(); ++i) total[i] = first ? sum[i] : total[i] + sum[i];
        std::ranges::fill(sum, 0.0F);
        first = false;
      }
    }
  }

  void parameters_changed() override {}

 private:
  struct Held {
    RunSeed seed;
    Values values;
  };

  bool needs_gradient(OpId op) const {
    return std::ranges::any_of(graph_.op(op).outputs, [&](TensorId t) { return graph_.tensor(t).needs_gradient; });
  }
  std::span<const float> weight(const Op& op, std::size_t i = 0) const {
    return store_.values[op.parameters[i].index()].floats();
  }
  std::vector<float> mask(const Op& op, OpId id, int micro_batch, const Held& held) const {
    const auto size = static_cast<std::size_t>(num_elements(graph_.tensor(op.outputs[0]).shape));
    return dropout_mask(held.seed, micro_batch, id, op.real("p"), size);
  }

  void run(const Op& op, OpId id, int micro_batch, Held& held) {
    const Floats out = held.values[op.outputs[0]].floats();
    const HostTensor& in = held.values.at(op.inputs[0]);
    if (op.kind == OpKind::embedding) {
      const auto tokens = in.integers();
      const auto width = out.size() / tokens.size();
      for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = weight(op)[static_cast<std::size_t>(tokens[i / width]) * width + i % width];
      return;
    }
    const auto x = in.floats();
    if (op.kind == OpKind::linear) return linear(op, x, out);
    if (op.kind == OpKind::cross_entropy) return cross_entropy(x, held.values.at(op.inputs[1]).integers(), out);
    if (op.kind == OpKind::dropout) {
      const auto factors = mask(op, id, micro_batch, held);
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = x[i] * factors[i];
      return;
    }
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = op.kind == OpKind::relu ? std::max(x[i], 0.0F) : x[i] + held.values.at(op.inputs[1]).floats()[i];
  }

  void linear(const Op& op, std::span<const float> x, Floats out) const {
    const auto outs = static_cast<std::size_t>(op.integer("out_features")), ins = weight(op).size() / outs;
    for (std::size_t i = 0; i < out.size(); ++i) {
      float sum = op.parameters.size() > 1 ? weight(op, 1)[i % outs] : 0;
      for (std::size_t k = 0; k < ins; ++k) sum += x[i / outs * ins + k] * weight(op)[i % outs * ins + k];
      out[i] = sum;
    }
  }

  static std::vector<float> softmax(std::span<const float> logits) {
    std::vector<float> share(logits.begin(), logits.end());
    const float most = *std::ranges::max_element(logits);
    float sum = 0;
    for (float& value : share) sum += value = std::exp(value - most);
    for (float& value : share) value /= sum;
    return share;
  }

  static void cross_entropy(std::span<const float> logits, std::span<const std::int64_t> labels, Floats out) {
    const std::size_t classes = logits.size() / labels.size();
    for (std::size_t i = 0; i < labels.size(); ++i)
      out[0] -= std::log(softmax(logits.subspan(i * classes, classes))[static_cast<std::size_t>(labels[i])]);
    out[0] /= static_cast<float>(labels.size());
  }

  /// Adds `more` to the gradient of a tensor; the first one is taken as it is.
  static void add(Values& gradients, TensorId tensor, HostTensor more) {
    const auto [sum, first] = gradients.try_emplace(tensor);
    if (first)
      sum->second = std::move(more);
    else
      for (std::size_t i = 0; i < more.floats().size(); ++i) sum->second.floats()[i] += more.floats()[i];
  }

  void differentiate(OpId id, int micro_batch, const Held& held, Values& gradients, double loss_scale) {
    const Op& op = graph_.op(id);
    const HostTensor& in = held.values.at(op.inputs[0]);
    HostTensor back = HostTensor::zeros(in.dtype == DType::fp32 ? in.shape : Shape{1});
    if (op.kind == OpKind::cross_entropy) {
      const auto labels = held.values.at(op.inputs[1]).integers();
      const std::size_t classes = in.floats().size() / labels.size();
      for (std::size_t i = 0; i < in.floats().size(); ++i) {
        const std::size_t row = i / classes, label = static_cast<std::size_t>(labels[row]);
        const float share = softmax(in.floats().subspan(row * classes, classes))[i % classes];
        back.floats()[i] = (share - (i % classes == label ? 1.0F : 0.0F)) / static_cast<float>(labels.size()) *
                           static_cast<float>(loss_scale);
      }
      return add(gradients, op.inputs[0], std::move(back));
    }
    const HostTensor& gradient = gradients.at(op.outputs[0]);
    const auto g = gradient.floats();
    if (op.kind == OpKind::embedding) {
      const std::size_t width = g.size() / in.integers().size();
      std::vector<float>& sum = sums_.at({op.parameters[0], id});
      for (std::size_t i = 0; i < g.size(); ++i)
        sum[static_cast<std::size_t>(in.integers()[i / width]) * width + i % width] += g[i];
      return;
    }
    if (op.kind == OpKind::linear) linear_backward(op, id, in.floats(), g, back.floats());
    if (op.kind == OpKind::relu)
      for (std::size_t i = 0; i < g.size(); ++i) back.floats()[i] = in.floats()[i] > 0 ? g[i] : 0;
    if (op.kind == OpKind::dropout) {
      const auto factors = mask(op, id, micro_batch, held);
      for (std::size_t i = 0; i < g.size(); ++i) back.floats()[i] = g[i] * factors[i];
    }
    if (op.kind == OpKind::add) {
      back = gradient;
      if (graph_.tensor(op.inputs[1]).needs_gradient) add(gradients, op.inputs[1], gradient);
    }
    if (graph_.tensor(op.inputs[0]).needs_gradient) add(gradients, op.inputs[0], std::move(back));
  }

  void linear_backward(const Op& op, OpId id, std::span<const float> x, std::span<const float> g, Floats back) {
    const auto outs = static_cast<std::size_t>(op.integer("out_features")), ins = weight(op).size() / outs;
    std::vector<float> of_weight(weight(op).size()), of_bias(outs);
    for (std::size_t i = 0; i < g.size(); ++i) {
      of_bias[i % outs] += g[i];
      for (std::size_t k = 0; k < ins; ++k) {
        back[i / outs * ins + k] += g[i] * weight(op)[i % outs * ins + k];
        of_weight[i % outs * ins + k] += g[i] * x[i / outs * ins + k];
      }
    }
    accumulate(sums_.at({op.parameters[0], id}), of_weight);
    if (op.parameters.size() > 1) accumulate(sums_.at({op.parameters[1], id}), of_bias);
  }

  static void accumulate(std::vector<float>& sum, const std::vector<float>& more) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
  }

  const Graph& graph_;
  const Part& part_;
  ParameterStore& store_;
  std::map<int, Held> held_;
  std::map<std::pair<ParameterId, OpId>, std::vector<float>> sums_;
};

std::unique_ptr<Backend> make(const Graph& graph, const Part& part, ParameterStore& store, const BackendOptions&) {
  return std::make_unique<PlainBackend>(graph, part, store);
}

constexpr BackendRow row = {"plain", "loops, for tests", has, make};

}  // namespace

const BackendRow& plain_backend() { return row; }

}  // namespace fusion::exec
