// Runs one part of the OP-DAG with real numbers: forward, backward, gradients. Two implementations, libtorch and Eigen,
// so that ranks of one run may use different ones; the wire knows neither.
//
// Determinism: with the same part, parameters, inputs, seed and order of calls, a backend gives the same bits.
// Gradients of the micro-batches are added in the order in which their backward is called.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"
#include "exec/host_tensor.h"

namespace fusion::exec {

/// What a stage runs and what crosses its borders. Ids are the graph's.
struct Part {
  std::vector<OpId> ops;                ///< ascending
  std::vector<TensorId> inputs;         ///< received, or fed from data (input and label ops); ascending
  std::vector<TensorId> outputs;        ///< sent to other stages; ascending
  std::vector<ParameterId> parameters;  ///< ascending
  bool has_loss = false;                ///< the part contains the cross_entropy op
};
Part part_of(const Graph&, std::span<const OpId> ops);

struct TensorValue {
  TensorId id;
  HostTensor value;
};

/// Names a run's randomness: dropout of op o in step s and micro-batch m draws from a generator seeded with all four.
struct RunSeed {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  /// Parameters and their accumulated gradients, fp32, row-major. Valid until the backend dies.
  virtual std::span<float> parameter(ParameterId) = 0;
  virtual std::span<float> gradient(ParameterId) = 0;
  virtual void zero_gradients() = 0;

  /// Runs the part for one micro-batch and keeps what its backward needs. `inputs` are Part::inputs, in that order; the
  /// result is Part::outputs, in that order. With has_loss, `loss` is the mean loss of the micro-batch.
  struct Forward {
    std::vector<TensorValue> outputs;
    float loss = 0;
  };
  virtual Forward forward(int micro_batch, const std::vector<TensorValue>& inputs, const RunSeed&) = 0;

  /// Adds the gradients of a micro-batch whose forward ran. `output_gradients` are of the outputs that need one; the
  /// loss starts with `loss_scale` (1 / m for m micro-batches, so that a step is the mean of them). Returns the
  /// gradients of the inputs that need one, in order, and forgets the micro-batch.
  virtual std::vector<TensorValue> backward(int micro_batch, const std::vector<TensorValue>& output_gradients,
                                            float loss_scale) = 0;
};

struct BackendRow {
  std::string_view name;
  std::string_view help;
  /// Parameters start at zero; see initialize_parameters. Throws InputError for an op kind that it lacks.
  std::unique_ptr<Backend> (*make)(const Graph&, const Part&);
};
/// "torch", "eigen": those that this build has.
std::span<const BackendRow> backend_table();
const BackendRow& find_backend(std::string_view name);

/// Fills a parameter from a generator seeded with (seed, name): the same bits on whatever rank, machine and backend it
/// lives. What it gets follows from its name and its first user:
///   a bias                     0
///   the weight of a norm       1
///   convolutions, and linear layers of a network without attention: standard deviation sqrt(2 / fan in) (He 2015)
///   embeddings, and linear layers of one with attention: 0.02, and 0.02 / sqrt(2 L) for those that end in a residual
///   sum ("c_proj", "o_proj", "down_proj"), L being the attention ops (GPT-2)
/// Draws are sums of twelve uniform integers (Irwin-Hall), near a normal up to 6 deviations and free of libm.
void initialize_parameter(const Graph&, ParameterId, std::uint64_t seed, std::span<float> values);

}  // namespace fusion::exec
