// libtorch's autograd over one part. The whole part is one graph: no cost per op but libtorch's own.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <dlfcn.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/graph/ops.h"
#include "exec/backend_rows.h"
#include "exec/backend_torch_ops.h"
#include "exec/backend_torch_tensor.h"

namespace fusion::exec {
namespace {

using Tensors = std::vector<at::Tensor>;

/// The BLAS under libtorch has threads of its own, where it is OpenBLAS.
bool set_blas_threads() {
  using SetThreads = void (*)(int);
  void* symbol = dlsym(RTLD_DEFAULT, "openblas_set_num_threads");
  if (symbol != nullptr) reinterpret_cast<SetThreads>(symbol)(1);
  return symbol != nullptr;
}

/// For the calling thread: OpenMP has a setting for each.
void use_one_thread() {
  static const bool once = set_blas_threads();
  static_cast<void>(once);
  at::set_num_threads(1);
}

/// fp32 means fp32, and the same bits every time.
void use_exact_cuda() {
  at::globalContext().setAllowTF32CuBLAS(false);
  at::globalContext().setAllowTF32CuDNN(false);
  at::globalContext().setDeterministicCuDNN(true);
}

/// What a forward leaves for its backward.
struct Held {
  Tensors sources;  ///< of Part::inputs, then Part::data
  Tensors outputs;  ///< of Part::outputs; none where backward recomputes them
  Tensors losses;
  RunSeed seed;
};

class TorchBackend final : public Backend {
 public:
  TorchBackend(const Graph& graph, const Part& part, ParameterStore& store, const BackendOptions& options)
      : graph_(graph),
        part_(part),
        store_(store),
        recompute_(options.recompute),
        constants_(device_of(options.device)),
        losses_(losses_of(graph, part)),
        released_(releases()),
        is_begun_(graph.parameters.size()) {
    if (device().is_cuda()) use_exact_cuda();
    make_leaves();
  }

  ForwardResult forward(int micro_batch, Values inputs, const RunSeed& seed) override {
    use_one_thread();
    check(!held_.contains(micro_batch), "a micro-batch that is held already");
    Held held{.sources = sources_of(std::move(inputs)), .outputs = {}, .losses = {}, .seed = seed};
    {
      const at::AutoGradMode mode(!recompute_);
      run(held, micro_batch);
    }
    ForwardResult result;
    for (std::size_t i = 0; i < part_.outputs.size(); ++i)
      result.outputs.emplace(part_.outputs[i], to_host(held.outputs[i]));
    for (const at::Tensor& loss : held.losses)
      result.loss = result.loss.value_or(0) + static_cast<double>(loss.item<float>());
    if (recompute_) held.outputs.clear(), held.losses.clear();
    held_.emplace(micro_batch, std::move(held));
    return result;
  }

  Values backward(int micro_batch, Values output_gradients, double loss_scale) override {
    use_one_thread();
    auto node = held_.extract(micro_batch);
    check(!node.empty(), "backward of a micro-batch that is not held");
    Held& held = node.mapped();
    if (recompute_) run(held, micro_batch);
    differentiate(held, std::move(output_gradients), loss_scale);
    Values gradients;
    for (std::size_t i = 0; i < part_.inputs.size(); ++i) {
      const at::Tensor& leaf = held.sources[i];
      if (!leaf.requires_grad()) continue;
      gradients.emplace(part_.inputs[i], to_host(leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf)));
    }
    return gradients;
  }

  void fold_gradients() override {
    const at::NoGradGuard no_grad;
    for (auto& [parameter, leaves] : leaves_of_) {
      at::Tensor folded = alias_of(store_.gradients[parameter.index()]);
      bool is_begun = false;
      for (at::Tensor& leaf : leaves) {
        const at::Tensor& gradient = leaf.grad();
        if (!gradient.defined()) continue;
        if (is_begun)
          folded.add_(gradient.to(at::kCPU));
        else if (gradient.data_ptr() != folded.data_ptr())  // else it was added up in place
          folded.copy_(gradient);
        is_begun = true;
        leaf.mutable_grad().reset();
      }
      if (!is_begun) folded.zero_();
      is_begun_[parameter.index()] = false;
    }
  }

  void parameters_changed() override {
    if (device().is_cpu()) return make_leaves();  // the memory may be another, after a checkpoint
    const at::NoGradGuard no_grad;
    for (auto& [parameter, leaves] : leaves_of_) {
      at::Tensor shared = leaves[0].detach();
      upload(store_.values[parameter.index()], shared);
    }
  }

 private:
  const at::Device& device() const { return constants_.device(); }

  /// One leaf per use of a parameter, all on the same memory, so that each use has a sum of its own.
  void make_leaves() {
    std::map<ParameterId, at::Tensor> values;
    for (const ParameterId id : part_.parameters) {
      HostTensor& host = store_.values[id.index()];
      values[id] = device().is_cpu() ? alias_of(host) : take(host, device());
    }
    leaves_.clear();
    leaves_of_.clear();
    for (const OpId id : part_.ops) {
      Tensors& leaves = leaves_.emplace_back();
      for (const ParameterId parameter : graph_.op(id).parameters) {
        leaves.push_back(values[parameter].detach().requires_grad_());
        Tensors& uses = leaves_of_[parameter];
        uses.push_back(leaves.back());
        if (device().is_cpu() && uses.size() == 1)
          leaves.back().register_hook([this, parameter](at::Tensor gradient) { return placed(parameter, gradient); });
      }
    }
  }

  /// Moves the first gradient since the last fold to where the sum is wanted, while it is in the cache; autograd takes
  /// that memory over and adds later ones there. So gradients are held once.
  at::Tensor placed(ParameterId parameter, const at::Tensor& gradient) {
    if (is_begun_[parameter.index()]) return gradient;
    is_begun_[parameter.index()] = true;
    at::Tensor folded = alias_of(store_.gradients[parameter.index()]);
    folded.copy_(gradient);
    return folded;
  }

  /// For each op, the tensors that no later op of the part and no reader outside wants.
  std::vector<std::vector<TensorId>> releases() const {
    std::map<TensorId, std::size_t> last;
    for (std::size_t i = 0; i < part_.ops.size(); ++i) {
      for (const TensorId tensor : graph_.op(part_.ops[i]).outputs) last[tensor] = i;
      for (const TensorId tensor : graph_.op(part_.ops[i]).inputs) last[tensor] = i;
    }
    for (const TensorId tensor : part_.outputs) last.erase(tensor);
    for (const TensorId tensor : losses_) last.erase(tensor);
    std::vector<std::vector<TensorId>> released(part_.ops.size());
    for (const auto& [tensor, op] : last) released[op].push_back(tensor);
    return released;
  }

  Tensors sources_of(Values inputs) const {
    Tensors sources;
    for (const auto* ids : {&part_.inputs, &part_.data})
      for (const TensorId id : *ids) {
        const auto found = inputs.find(id);
        check(found != inputs.end(), "no value for tensor " + graph_.tensor(id).name);
        check(found->second.shape == graph_.tensor(id).shape, "another shape for tensor " + graph_.tensor(id).name);
        sources.push_back(take(std::move(found->second), device()).requires_grad_(graph_.tensor(id).needs_gradient));
      }
    return sources;
  }

  /// Fills `outputs` and `losses` from `sources`.
  void run(Held& held, int micro_batch) {
    Tensors tensors(graph_.tensors.size());
    for (std::size_t i = 0; i < part_.inputs.size(); ++i) tensors[part_.inputs[i].index()] = held.sources[i];
    for (std::size_t i = 0; i < part_.data.size(); ++i)
      tensors[part_.data[i].index()] = held.sources[part_.inputs.size() + i];
    for (std::size_t i = 0; i < part_.ops.size(); ++i) {
      run_op(i, tensors, held.seed, micro_batch);
      for (const TensorId tensor : released_[i]) tensors[tensor.index()].reset();
    }
    for (const TensorId tensor : part_.outputs) held.outputs.push_back(tensors[tensor.index()]);
    for (const TensorId tensor : losses_) held.losses.push_back(tensors[tensor.index()]);
  }

  void run_op(std::size_t i, Tensors& tensors, const RunSeed& seed, int micro_batch) {
    const Op& op = graph_.op(part_.ops[i]);
    if (is_source(op.kind)) return;
    const TorchRow& row = *find_torch_op(op.kind);
    const TorchCall call{op, part_.ops[i], inputs_of(op, row, tensors), leaves_[i], seed, micro_batch, constants_};
    try {
      Tensors outputs = row.run(call);
      for (std::size_t o = 0; o < outputs.size(); ++o) tensors[op.outputs[o].index()] = std::move(outputs[o]);
    } catch (const c10::Error& error) {
      throw RuntimeFault("libtorch, op " + in_quotes(op.name) + ": " + error.what_without_backtrace());
    }
  }

  /// An op that reads a tensor twice does so through one view: its gradients add up before they meet those of others.
  static Tensors inputs_of(const Op& op, const TorchRow& row, const Tensors& tensors) {
    Tensors inputs;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const auto first = std::ranges::find(op.inputs, op.inputs[i]);
      const at::Tensor& x = tensors[op.inputs[i].index()];
      const auto at = static_cast<std::size_t>(first - op.inputs.begin());
      const bool again = std::ranges::count(op.inputs, op.inputs[i]) > 1;
      if (at < i)
        inputs.push_back(inputs[at]);
      else if (again || row.reads_twice)
        inputs.push_back(x.contiguous().view(x.sizes()));
      else
        inputs.push_back(row.any_strides ? x : x.contiguous());
    }
    return inputs;
  }

  void differentiate(const Held& held, Values gradients, double loss_scale) const {
    Tensors roots, root_gradients;
    for (std::size_t i = 0; i < part_.outputs.size(); ++i) {
      if (!graph_.tensor(part_.outputs[i]).needs_gradient) continue;
      const auto found = gradients.find(part_.outputs[i]);
      check(found != gradients.end(), "no gradient for tensor " + graph_.tensor(part_.outputs[i]).name);
      roots.push_back(held.outputs[i]);
      root_gradients.push_back(take(std::move(found->second), device()));
    }
    for (const at::Tensor& loss : held.losses) {
      if (!loss.requires_grad()) continue;
      roots.push_back(loss);
      root_gradients.push_back(at::full({}, loss_scale, loss.options()));
    }
    if (roots.empty()) return;
    try {
      torch::autograd::backward(roots, root_gradients);
    } catch (const c10::Error& error) {
      throw RuntimeFault(std::string("libtorch, backward: ") + error.what_without_backtrace());
    }
  }

  const Graph& graph_;
  const Part& part_;
  ParameterStore& store_;
  bool recompute_;
  TorchConstants constants_;
  std::vector<TensorId> losses_;
  std::vector<std::vector<TensorId>> released_;  ///< per op of the part
  std::vector<Tensors> leaves_;                  ///< per op of the part
  std::map<ParameterId, Tensors> leaves_of_;     ///< the same, in op order
  std::vector<bool> is_begun_;                   ///< by parameter: its first use has a gradient since the last fold
  std::map<int, Held> held_;
};

bool has(OpKind kind) { return is_source(kind) || find_torch_op(kind) != nullptr; }

std::unique_ptr<Backend> make(const Graph& graph, const Part& part, ParameterStore& store,
                              const BackendOptions& options) {
  require_kinds("torch", has, graph, part);
  return std::make_unique<TorchBackend>(graph, part, store, options);
}

}  // namespace

BackendRow torch_row() { return {"torch", "libtorch: CPU, and CUDA where it has that", has, make}; }

}  // namespace fusion::exec
