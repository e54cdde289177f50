// Reverse-mode differentiation over one part by hand: forward keeps what backward reads, backward walks the ops back.
// No framework, and no memory beyond plain vectors.
#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "exec/backend_eigen_ops.h"
#include "exec/backend_rows.h"

namespace fusion::exec {
namespace {

/// nullptr for kinds without a row.
const EigenRow* find_row(OpKind kind) {
  for (const auto rows :
       {eigen_linear_rows(), eigen_attention_rows(), eigen_norm_rows(), eigen_pointwise_rows(), eigen_shape_rows()})
    if (const auto found = std::ranges::find(rows, kind, &EigenRow::kind); found != rows.end()) return &*found;
  return nullptr;
}

bool has(OpKind kind) { return is_source(kind) || find_row(kind) != nullptr; }

void add(std::span<float> sum, std::span<const float> terms) {
  std::ranges::transform(sum, terms, sum.begin(), std::plus<>());
}

/// Takes over the terms if there were none.
void accumulate(Floats& sum, Floats terms) {
  if (sum.empty())
    sum = std::move(terms);
  else
    add(sum, terms);
}

Floats floats_of(const HostTensor& tensor) { return {tensor.floats().begin(), tensor.floats().end()}; }

HostTensor tensor_of(const Shape& shape, const Floats& values) {
  HostTensor tensor = HostTensor::zeros(shape);
  std::ranges::copy(values, tensor.floats().begin());
  return tensor;
}

/// What a forward leaves for its backward: values by tensor, and what ops kept by place in the part.
struct Tape {
  std::vector<HostTensor> values;
  std::vector<EigenKept> kept;
};

struct Held {
  Values inputs;  ///< where backward recomputes the rest
  Tape tape;      ///< else
  RunSeed seed;
};

class EigenBackend final : public Backend {
 public:
  EigenBackend(const Graph& graph, const Part& part, ParameterStore& store, bool recompute)
      : graph_(graph), part_(part), store_(store), recompute_(recompute), losses_(losses_of(graph, part)) {
    for (const OpId id : part.ops) {
      views_.push_back(view_of(graph, id));
      rows_.push_back(find_row(graph.op(id).kind));
      sums_.emplace_back(graph.op(id).parameters.size());
    }
    find_unkept();
  }

  ForwardResult forward(int micro_batch, Values inputs, const RunSeed& seed) override {
    check(!held_.contains(micro_batch), "a micro-batch that is held already");
    Held held{recompute_ ? inputs : Values{}, run(micro_batch, std::move(inputs), seed), seed};
    ForwardResult result;
    for (const TensorId id : part_.outputs) result.outputs.emplace(id, held.tape.values[id.index()]);
    for (const TensorId id : losses_)
      result.loss = result.loss.value_or(0) + static_cast<double>(held.tape.values[id.index()].floats()[0]);
    if (recompute_)
      held.tape = {};
    else
      for (const TensorId id : unkept_) held.tape.values[id.index()].data = {};
    held_.emplace(micro_batch, std::move(held));
    return result;
  }

  Values backward(int micro_batch, Values output_gradients, double loss_scale) override {
    auto node = held_.extract(micro_batch);
    check(!node.empty(), "backward of a micro-batch that is not held");
    Held& held = node.mapped();
    if (recompute_) held.tape = run(micro_batch, std::move(held.inputs), held.seed);
    std::vector<Floats> gradients(graph_.tensors.size());
    for (const TensorId id : part_.outputs)
      if (graph_.tensor(id).needs_gradient) gradients[id.index()] = floats_of(output_gradients.at(id));
    for (const TensorId id : losses_) gradients[id.index()] = {static_cast<float>(loss_scale)};
    for (std::size_t i = part_.ops.size(); i-- > 0;) differentiate(i, held, micro_batch, gradients);
    return input_gradients(gradients);
  }

  void fold_gradients() override {
    for (const ParameterId id : part_.parameters) std::ranges::fill(store_.gradients[id.index()].floats(), 0.0F);
    std::vector<bool> begun(graph_.parameters.size());
    for (std::size_t i = 0; i < part_.ops.size(); ++i)
      for (std::size_t slot = 0; slot < sums_[i].size(); ++slot) {
        Floats& sum = sums_[i][slot];
        if (sum.empty()) continue;
        const std::size_t parameter = views_[i].op.parameters[slot].index();
        const auto folded = store_.gradients[parameter].floats();
        begun[parameter] ? add(folded, sum) : static_cast<void>(std::ranges::copy(sum, folded.begin()));
        begun[parameter] = true;
        sum.clear();
      }
  }

  void parameters_changed() override {}  // read in place

 private:
  /// Tensors that no backward reads, by what the op table says of their makers and readers. Token ids and labels stay.
  void find_unkept() {
    std::vector<bool> is_kept(graph_.tensors.size());
    const auto keep = [&](const std::vector<TensorId>& ids) {
      for (const TensorId id : ids) is_kept[id.index()] = true;
    };
    for (const OpView& view : views_) {
      const OpCosts costs = row_of(view.op.kind).costs(view);
      if (costs.keeps_inputs) keep(view.op.inputs);
      if (costs.keeps_outputs) keep(view.op.outputs);
    }
    for (const OpView& view : views_)
      for (const auto* ids : {&view.op.inputs, &view.op.outputs})
        for (const TensorId id : *ids)
          if (!is_kept[id.index()] && graph_.tensor(id).dtype != DType::int64) unkept_.push_back(id);
  }

  EigenCall call_of(std::size_t i, Tape& tape, const RunSeed& seed, int micro_batch) const {
    EigenCall call{views_[i], part_.ops[i], seed, micro_batch, {}, {}, {}, tape.kept[i]};
    for (const TensorId id : views_[i].op.inputs) call.inputs.push_back(&tape.values[id.index()]);
    for (const TensorId id : views_[i].op.outputs) call.outputs.push_back(&tape.values[id.index()]);
    for (const ParameterId id : views_[i].op.parameters)
      call.parameters.push_back(std::as_const(store_.values[id.index()]).floats());
    return call;
  }

  Tape run(int micro_batch, Values inputs, const RunSeed& seed) const {
    Tape tape{std::vector<HostTensor>(graph_.tensors.size()), std::vector<EigenKept>(part_.ops.size())};
    for (const auto* ids : {&part_.inputs, &part_.data})
      for (const TensorId id : *ids) {
        const auto found = inputs.find(id);
        check(found != inputs.end(), "no value for tensor " + graph_.tensor(id).name);
        check(found->second.shape == graph_.tensor(id).shape, "another shape for tensor " + graph_.tensor(id).name);
        tape.values[id.index()] = std::move(found->second);
      }
    for (std::size_t i = 0; i < part_.ops.size(); ++i) {
      if (is_source(views_[i].op.kind)) continue;
      for (const TensorId id : views_[i].op.outputs) {
        const Tensor& tensor = graph_.tensor(id);
        tape.values[id.index()] =
            HostTensor::zeros(tensor.shape, tensor.dtype == DType::int64 ? DType::int64 : DType::fp32);
      }
      rows_[i]->forward(call_of(i, tape, seed, micro_batch));
    }
    return tape;
  }

  /// Adds what op `i` answers to the gradients of its inputs, once per tensor, and of its parameters.
  void differentiate(std::size_t i, Held& held, int micro_batch, std::vector<Floats>& gradients) {
    const Op& op = views_[i].op;
    const auto has_gradient = [&](TensorId id) { return !gradients[id.index()].empty(); };
    if (is_source(op.kind) || std::ranges::none_of(op.outputs, has_gradient)) return;
    EigenGradients call;
    std::vector<Floats> outputs, inputs, parameters;
    for (const TensorId id : op.outputs) {
      outputs.push_back(std::move(gradients[id.index()]));
      outputs.back().resize(static_cast<std::size_t>(num_elements(graph_.tensor(id).shape)));
    }
    for (const TensorId id : op.inputs) {
      const Tensor& tensor = graph_.tensor(id);
      inputs.emplace_back(tensor.needs_gradient ? num_elements(tensor.shape) : 0);
    }
    for (const ParameterId id : op.parameters) parameters.emplace_back(num_elements(graph_.parameter(id).shape));
    call.outputs.assign(outputs.begin(), outputs.end());
    call.inputs.assign(inputs.begin(), inputs.end());
    call.parameters.assign(parameters.begin(), parameters.end());
    if (std::ranges::any_of(inputs, [](const Floats& x) { return !x.empty(); }) || !parameters.empty())
      rows_[i]->backward(call_of(i, held.tape, held.seed, micro_batch), call);
    for (std::size_t slot = 0; slot < parameters.size(); ++slot)
      accumulate(sums_[i][slot], std::move(parameters[slot]));
    hand_back(op, std::move(inputs), gradients);
  }

  static void hand_back(const Op& op, std::vector<Floats> inputs, std::vector<Floats>& gradients) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].empty()) continue;
      for (std::size_t again = i + 1; again < inputs.size(); ++again)
        if (op.inputs[again] == op.inputs[i]) add(inputs[i], std::exchange(inputs[again], {}));
      accumulate(gradients[op.inputs[i].index()], std::move(inputs[i]));
    }
  }

  Values input_gradients(const std::vector<Floats>& gradients) const {
    Values values;
    for (const TensorId id : part_.inputs) {
      const Tensor& tensor = graph_.tensor(id);
      if (tensor.needs_gradient) values.emplace(id, tensor_of(tensor.shape, gradients[id.index()]));
    }
    return values;
  }

  const Graph& graph_;
  const Part& part_;
  ParameterStore& store_;
  bool recompute_;
  std::vector<TensorId> losses_;
  std::vector<OpView> views_;  ///< per op of the part
  std::vector<TensorId> unkept_;
  std::vector<const EigenRow*> rows_;      ///< per op of the part; none for sources
  std::vector<std::vector<Floats>> sums_;  ///< gradients per op of the part and parameter slot; empty: none yet
  std::map<int, Held> held_;
};

std::unique_ptr<Backend> make(const Graph& graph, const Part& part, ParameterStore& store,
                              const BackendOptions& options) {
  if (!options.device.empty() && options.device != "cpu")
    throw InputError("", "device", in_quotes(options.device) + ": the backend \"eigen\" runs on \"cpu\" alone");
  require_kinds("eigen", has, graph, part);
  return std::make_unique<EigenBackend>(graph, part, store, options.recompute);
}

}  // namespace

BackendRow eigen_row() { return {"eigen", "Eigen on the CPU: every op kind, no framework", has, make}; }

}  // namespace fusion::exec
