// One rank's walk through the list of its device, once per step of training.
//
// Receives are posted by the transport itself, so a recv in the list is only taken where a task waits for it. A send
// leaves when its `after` are complete, in the list's order per peer, and nothing waits for it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "exec/execute.h"
#include "exec/execute_wire.h"

namespace fusion::exec {

/// What one rank measured in one step: per kind of work, and each piece of it.
struct WalkTimes {
  std::map<std::string, KindReport> kinds;  ///< "forward", "backward", "exchange", "update", "codec"
  Seconds busy{}, longest{};
  std::vector<TimelineEvent> events;  ///< compute, reduce, update
};

class Walk {
 public:
  /// Everything outlives it. Throws InputError as `execute` does.
  Walk(const Program&, const Graph&, Transport&, const BackendRow&, const DataSet*, const TrainOptions&);

  /// Runs step `step` (from 0). `clip_scale` is asked once, when all gradients are there, and says what to multiply
  /// them by. Returns the mean loss, where this rank's stage has the loss, else 0.
  double run(std::int64_t step, const std::function<float()>& clip_scale);

  /// Parameters that this rank speaks for: each belongs to the first stage that holds it.
  const std::vector<ParameterId>& owned() const { return owned_; }
  ParameterStore& store() { return store_; }
  const Part& part() const { return part_; }
  /// Null where this rank's stage reads none.
  const DataSet* data() const { return data_; }
  std::vector<OptimizerState>& optimizer_states() { return optimizer_states_; }
  Wire& wire() { return wire_; }
  /// Longer than that no piece of this rank's work takes; nothing: it may take for ever.
  void limit_work(std::optional<Seconds> limit) { work_limit_ = limit; }
  WalkTimes take_times() { return std::exchange(times_, {}); }
  /// Step `step` begins with sample number `first_sample`; those after it go on from there.
  void start_at(std::int64_t step, std::int64_t first_sample) { start_ = {step, first_sample}; }
  /// The number of the sample that begins `step`.
  std::int64_t first_sample(std::int64_t step) const {
    return start_.first_sample + (step - start_.step) * samples_per_step();
  }
  std::int64_t samples_per_step() const { return micro_batches_of_all() * graph_.micro_batch; }
  /// The values in the store have been replaced.
  void parameters_changed() { backend_->parameters_changed(); }
  DeviceId device() const { return program_.devices[rank_].device; }

 private:
  using Instance = std::pair<TaskId, std::uint32_t>;
  using Of = std::pair<TensorId, std::uint32_t>;

  int micro_batches_of_all() const;
  int number_of(int micro_batch) const;
  void compute(const Step&);
  void forward(const Task&, int micro_batch);
  void backward(const Task&, int micro_batch);
  void reduce(const Task&);
  void put(const Payload& bucket, HostTensor& values);
  void update_parameters();
  void fold();
  float scale();

  void wait_for(const Task&, std::uint32_t micro_batch);
  bool complete(const Task&, std::uint32_t micro_batch) const;
  void take(TaskId recv, std::uint32_t micro_batch);
  HostTensor claim(TaskId recv, std::uint32_t micro_batch);
  void send_ready(bool all);
  void send(const Step&);
  HostTensor payload_of(const Task&, std::uint32_t micro_batch);

  template <class Visit>
  void for_each_before(const Task&, std::uint32_t micro_batch, Visit) const;
  template <class Work>
  void timed(std::string_view kind, const Step*, Work);

  const Program& program_;
  const Graph& graph_;
  Transport& transport_;
  const DataSet* data_;
  const TrainOptions& options_;
  const std::size_t rank_;
  StageId stage_;
  Part part_;
  ParameterStore store_;
  std::vector<OptimizerState> optimizer_states_;  ///< by ParameterId
  std::vector<ParameterId> owned_;
  std::map<DeviceId, int> rank_of_;
  std::map<TensorId, int> readers_;  ///< sends of a tensor
  bool has_backward_ = false;
  std::unique_ptr<Backend> backend_;
  Wire wire_;
  WalkTimes times_;
  std::optional<Seconds> work_limit_;
  struct {
    std::int64_t step = 0, first_sample = 0;
  } start_;

  // of the step that runs
  std::int64_t step_ = 0;
  const std::function<float()>* clip_scale_ = nullptr;
  std::optional<float> scale_;
  bool folded_ = false;
  double loss_ = 0;
  std::set<Instance> done_;
  std::map<Instance, HostTensor> arrived_;
  std::map<int, std::deque<Step>> to_send_;           ///< by peer
  std::map<Of, std::pair<HostTensor, int>> outputs_;  ///< and how many sends still want it
  std::map<Of, HostTensor> input_gradients_;
};

}  // namespace fusion::exec
