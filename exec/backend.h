// What computes: the ops of one part with reverse-mode differentiation, in one framework. A run may mix frameworks,
// since all that leaves a backend are host tensors.
//
// What every backend must do, so that runs are equal bit for bit however the OP-DAG is cut:
//   - gradients of parameters add up over backward calls in the order of the calls; a tied parameter keeps one sum per
//     op that uses it, and fold_gradients adds these in op order;
//   - dropout draws its mask from dropout_mask() (dropout.h), which knows nothing of ranks or frameworks;
//   - gradients of one tensor add up from its last reader to its first, what comes from outside before what is added
//     here; an op counts as one reader, however often it reads.
//   - one thread.
//
// A sum of floats hangs on its brackets, so of the gradients that several stages send for one tensor, the last stage's
// come first: ((stage 3 + stage 2) + this stage's own). Then a cut changes no bit unless a stage that reads a tensor
// twice or more stands between its maker's and another stage that reads it: there brackets differ, and so may the last
// bit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/part.h"

namespace fusion::exec {

/// Parameters and their gradients in host memory, by ParameterId; empty for those that the part does not hold. The
/// executor owns it, the optimizer writes `values`, a backend on the same memory reads it in place.
struct ParameterStore {
  std::vector<HostTensor> values, gradients;
};
ParameterStore make_store(const Graph&, const Part&,
                          std::uint64_t seed);  ///< values of initialize_parameter, gradients 0

/// Position of the run, which every random draw depends on.
struct RunSeed {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
};

struct ForwardResult {
  Values outputs;              ///< of Part::outputs
  std::optional<double> loss;  ///< of a part with the loss: mean over the micro-batch
};

class Backend {
 public:
  virtual ~Backend() = default;

  /// Runs the part on `inputs` (Part::inputs and Part::data) and keeps what backward needs under `micro_batch`, which
  /// must not be held already.
  virtual ForwardResult forward(int micro_batch, Values inputs, const RunSeed&) = 0;

  /// Differentiates micro-batch `micro_batch` and forgets it. `output_gradients` has those of Part::outputs that need
  /// one; the loss, where the part has it, counts `loss_scale` (1 / micro-batches). Returns the gradients of
  /// Part::inputs that need one. Adds to the gradients of the parameters.
  virtual Values backward(int micro_batch, Values output_gradients, double loss_scale) = 0;

  /// Puts the sums since the last call into ParameterStore::gradients (tied: in op order) and starts again from zero.
  virtual void fold_gradients() = 0;

  /// The optimizer has written ParameterStore::values: a backend with copies of its own takes them over.
  virtual void parameters_changed() = 0;
};

struct BackendOptions {
  std::string device;      ///< "cpu", "cuda", "cuda:1"; empty: cpu
  bool recompute = false;  ///< keep only the inputs; run forward again at backward
};

struct BackendRow {
  std::string_view name, help;
  bool (*has)(OpKind);
  /// Throws InputError for an op kind, attribute or device that it does not have. The graph, part and store must
  /// outlive the backend.
  std::unique_ptr<Backend> (*make)(const Graph&, const Part&, ParameterStore&, const BackendOptions&);
};

/// "torch" (libtorch), and "eigen": Eigen on the CPU. Both have every op kind.
std::span<const BackendRow> backend_table();
/// Throws InputError with the nearest names.
const BackendRow& find_backend(std::string_view name);

}  // namespace fusion::exec
