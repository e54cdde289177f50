#include "exec/execute_walk.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "exec/data_ports.h"

namespace fusion::exec {

void require_executable(const Program& program, const Graph& graph) {
  if (graph.dtype != DType::fp32)
    throw InputError(graph.name, "precision",
                     std::string(name_of(graph.dtype)) + " is not executed yet; plan with --precision fp32");
  const bool splits =
      std::ranges::any_of(program.tasks, [](const Task& t) { return t.phase == Phase::weight_gradient; });
  if (program.stages.size() != program.devices.size() || splits)
    throw InputError(program.info.model, "order",
                     program.info.order + (splits ? " splits the backward pass" : " gives a device several stages") +
                         ", which is simulated and not executed; the orders that are: gpipe, 1f1b, and files with one "
                         "stage per device");
}

namespace {

/// The one stage of a rank. Throws InputError for what no runner of ours executes yet.
StageId stage_of(const Program& program, const Graph& graph, std::size_t rank) {
  require_executable(program, graph);
  check(rank < program.devices.size(), "more ranks than devices in the program");
  const auto mine = std::ranges::find(program.stages, program.devices[rank].device, &Stage::device);
  check(mine != program.stages.end(), "a device without a stage");
  return StageId(static_cast<std::size_t>(mine - program.stages.begin()));
}

/// Adds `more` to `sum`, element by element.
void add_to(std::span<float> sum, std::span<const float> more) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
}

/// Visits the elements [begin, end) of a bucket, as spans of its parameters.
template <class Visit>
void for_each_piece(const Payload& bucket, std::vector<HostTensor>& of_parameters, Visit visit) {
  std::int64_t first = 0;
  for (const ParameterId p : bucket.parameters) {
    const std::span<float> all = of_parameters[p.index()].floats();
    const std::int64_t size = static_cast<std::int64_t>(all.size());
    const std::int64_t begin = std::max(bucket.begin, first), end = std::min(bucket.end, first + size);
    if (begin < end)
      visit(all.subspan(static_cast<std::size_t>(begin - first), static_cast<std::size_t>(end - begin)),
            static_cast<std::size_t>(begin - bucket.begin));
    first += size;
  }
}

/// Parameters of this stage that no earlier one holds, of any replica.
std::vector<ParameterId> held_first(const Program& program, const Graph& graph, StageId stage, const Part& part) {
  std::vector<std::size_t> stage_of_op(graph.ops.size());
  for (std::size_t s = program.stages.size(); s-- > 0;)
    for (const OpId op : program.stages[s].ops) stage_of_op[op.index()] = s;
  std::vector<ParameterId> owned;
  for (const ParameterId p : part.parameters) {
    const auto& users = graph.parameter(p).users;
    if (std::ranges::all_of(users, [&](OpId op) { return stage_of_op[op.index()] >= stage.index(); }))
      owned.push_back(p);
  }
  return owned;
}

std::string described(const Program& program, const Task& task, std::uint32_t micro_batch, std::int64_t step) {
  const StageId from = task.kind == TaskKind::recv ? program.task(task.match).stage : task.stage;
  return std::string(name_of(task.payload.kind)) + ' ' + task.payload.name + " of " +
         program.stage_names[from.index()] + ", micro-batch " + std::to_string(micro_batch) + ", step " +
         std::to_string(step + 1);
}

}  // namespace

Walk::Walk(const Program& program, const Graph& graph, Transport& transport, const BackendRow& backend,
           const DataSet* data, const TrainOptions& options)
    : program_(program),
      graph_(graph),
      transport_(transport),
      data_(data),
      options_(options),
      rank_(static_cast<std::size_t>(transport.rank())),
      stage_(stage_of(program, graph, rank_)),
      part_(part_of(graph, program.stages[stage_.index()])),
      store_(make_store(graph, part_, options.seed)),
      optimizer_states_(graph.parameters.size()),
      owned_(held_first(program, graph, stage_, part_)),
      backend_(backend.make(graph, part_, store_, options.backend)),
      wire_(program, graph, options.codecs) {
  check(part_.data.empty() || data != nullptr, "a stage with input or label ops has no data");
  for (const ParameterId p : part_.parameters)
    optimizer_states_[p.index()] = fresh_state(options.optimizer.kind, store_.values[p.index()].floats().size());
  for (std::size_t d = 0; d < program.devices.size(); ++d) rank_of_[program.devices[d].device] = static_cast<int>(d);
  for (const Task& task : program.tasks)
    has_backward_ |= task.kind == TaskKind::compute && task.phase == Phase::backward && task.device == device();
  for (const Task& task : program.tasks)
    if (task.kind == TaskKind::send && task.device == device() && task.payload.kind == Payload::Kind::activation)
      ++readers_[task.payload.tensor];
}

double Walk::run(std::int64_t step, const std::function<float()>& clip_scale) {
  step_ = step;
  clip_scale_ = &clip_scale;
  scale_.reset();
  folded_ = false;
  loss_ = 0;
  done_.clear();
  for (const Step next : program_.devices[rank_].steps) {
    switch (program_.task(next.task).kind) {
      case TaskKind::recv:
        continue;
      case TaskKind::send:
        to_send_[rank_of_.at(program_.task(next.task).peer)].push_back(next);
        // Sums go from hand to hand in the order of the lists: the next step changes what this one sends.
        if (program_.task(next.task).phase == Phase::exchange) wait_for(program_.task(next.task), next.micro_batch);
        break;
      default:
        compute(next);
    }
    send_ready(false);
  }
  scale();
  check(arrived_.empty() && outputs_.empty() && input_gradients_.empty(), "a tensor that nobody took");
  return loss_ / micro_batches_of_all();
}

template <class Visit>
void Walk::for_each_before(const Task& task, std::uint32_t micro_batch, Visit visit) const {
  for (const TaskId before : task.after) {
    const bool alike = program_.task(before).per_micro_batch == task.per_micro_batch;
    const bool all = !alike && program_.task(before).per_micro_batch;
    const std::uint32_t first = all || !alike ? 0 : micro_batch;
    const std::uint32_t last = all ? static_cast<std::uint32_t>(program_.info.micro_batches) - 1 : first;
    for (std::uint32_t m = first; m <= last; ++m) visit(before, m);
  }
}

template <class Work>
void Walk::timed(std::string_view kind, const Step* step, Work work) {
  const std::string of = step == nullptr ? "" : " of micro-batch " + std::to_string(step->micro_batch);
  const Seconds start = transport_.now();
  transport_.begin_work(
      std::string(kind) + of + " in step " + std::to_string(step_ + 1) + " of " + program_.stage_names[stage_.index()],
      work_limit_);
  work();
  transport_.end_work();
  const Seconds end = transport_.now();
  KindReport& sum = times_.kinds[std::string(kind)];
  sum.name = kind;
  ++sum.count;
  sum.total += end - start;
  times_.busy += end - start;
  times_.longest = std::max(times_.longest, end - start);
  if (step != nullptr && options_.timeline) times_.events.push_back({step->task, step->micro_batch, start, end});
}

void Walk::compute(const Step& step) {
  const Task& task = program_.task(step.task);
  wait_for(task, step.micro_batch);
  if (task.kind == TaskKind::update) {
    send_ready(true);
    fold();
    scale();  // others are heard before the clock starts
  }
  timed(name_of(task.phase), &step, [&] {
    if (task.kind == TaskKind::reduce) return reduce(task);
    if (task.kind == TaskKind::update) return update_parameters();
    if (task.phase == Phase::forward) return forward(task, static_cast<int>(step.micro_batch));
    check(task.phase == Phase::backward, "a phase that no order has yet");
    backward(task, static_cast<int>(step.micro_batch));
  });
  done_.insert({step.task, step.micro_batch});
}

void Walk::forward(const Task& task, int micro_batch) {
  const auto m = static_cast<std::uint32_t>(micro_batch);
  Values inputs;
  for (const TaskId before : task.after)
    if (program_.task(before).kind == TaskKind::recv)
      inputs.emplace(program_.task(before).payload.tensor, claim(before, m));
  if (!part_.data.empty()) {
    const DataPorts ports = ports_of(graph_);
    Batch batch =
        batch_of(*data_, graph_, options_.seed, first_sample(step_) + number_of(micro_batch) * graph_.micro_batch);
    for (const TensorId tensor : part_.data)
      inputs.emplace(tensor, std::move(tensor == ports.input ? batch.input : batch.label));
  }
  ForwardResult result = backend_->forward(number_of(micro_batch), std::move(inputs), {options_.seed, step_});
  if (result.loss) loss_ += *result.loss;
  for (auto& [tensor, value] : result.outputs) outputs_[{tensor, m}] = {std::move(value), readers_.at(tensor)};
  if (!has_backward_)
    backend_->backward(number_of(micro_batch), {}, 0);  // nothing to differentiate: it forgets the micro-batch
}

void Walk::backward(const Task& task, int micro_batch) {
  const auto m = static_cast<std::uint32_t>(micro_batch);
  std::vector<TaskId> recvs;
  for (const TaskId before : task.after)
    if (program_.task(before).kind == TaskKind::recv) recvs.push_back(before);
  std::ranges::sort(recvs, std::greater(), [&](TaskId recv) { return program_.task(program_.task(recv).match).stage; });
  Values output_gradients;
  for (const TaskId recv : recvs) {
    HostTensor gradient = claim(recv, m);
    const auto [sum, first] = output_gradients.try_emplace(program_.task(recv).payload.tensor);
    if (first)
      sum->second = std::move(gradient);
    else
      add_to(sum->second.floats(), gradient.floats());
  }
  Values gradients =
      backend_->backward(number_of(micro_batch), std::move(output_gradients), 1.0 / micro_batches_of_all());
  for (auto& [tensor, gradient] : gradients) input_gradients_[{tensor, m}] = std::move(gradient);
}

/// Of all replicas together.
int Walk::micro_batches_of_all() const { return program_.info.micro_batches * program_.info.replicas; }

/// Among those of all replicas: each has a run of them.
int Walk::number_of(int micro_batch) const {
  return program_.stages[stage_.index()].replica * program_.info.micro_batches + micro_batch;
}

/// Own gradients and those that arrived, from the first stage that holds the bucket to the last.
void Walk::reduce(const Task& task) {
  fold();
  std::map<StageId, HostTensor> parts;
  parts[stage_] = payload_of(task, 0);
  for (const TaskId before : task.after)
    if (program_.task(before).kind == TaskKind::recv)
      parts[program_.task(program_.task(before).match).stage] = claim(before, 0);
  HostTensor sum = std::move(parts.begin()->second);
  for (auto part = std::next(parts.begin()); part != parts.end(); ++part) add_to(sum.floats(), part->second.floats());
  put(task.payload, sum);
}

/// In place of this rank's own gradients.
void Walk::put(const Payload& bucket, HostTensor& values) {
  for_each_piece(bucket, store_.gradients, [&](std::span<float> piece, std::size_t at) {
    std::ranges::copy(values.floats().subspan(at, piece.size()), piece.begin());
  });
}

void Walk::update_parameters() {
  for (const ParameterId p : part_.parameters)
    update(options_.optimizer, step_ + 1, scale(), store_.values[p.index()].floats(),
           store_.gradients[p.index()].floats(), optimizer_states_[p.index()]);
  backend_->parameters_changed();
}

void Walk::fold() {
  if (!std::exchange(folded_, true)) backend_->fold_gradients();
}

/// Of the gradients of all ranks. Every rank asks once per step, also one that updates nothing.
float Walk::scale() {
  if (!scale_) {
    send_ready(true);
    scale_ = (*clip_scale_)();
  }
  return *scale_;
}

void Walk::wait_for(const Task& task, std::uint32_t micro_batch) {
  for_each_before(task, micro_batch, [&](TaskId before, std::uint32_t m) {
    if (program_.task(before).kind == TaskKind::recv) take(before, m);
    check(done_.contains({before, m}), "a task is listed before one that it needs");
  });
}

bool Walk::complete(const Task& task, std::uint32_t micro_batch) const {
  bool all = true;
  for_each_before(task, micro_batch, [&](TaskId before, std::uint32_t m) { all = all && done_.contains({before, m}); });
  return all;
}

/// Waits for a message, once.
void Walk::take(TaskId recv, std::uint32_t micro_batch) {
  if (!done_.insert({recv, micro_batch}).second) return;
  const Task& task = program_.task(recv);
  const MessageTag tag{recv.value, micro_batch, step_};
  Bytestring message = transport_.receive(rank_of_.at(task.peer), tag, described(program_, task, micro_batch, step_));
  HostTensor& tensor = arrived_[{recv, micro_batch}];
  const auto unpack = [&] { tensor = wire_.unpack(recv, step_, std::move(message)); };
  task.codec.kind == CodecKind::none ? unpack() : timed("codec", nullptr, unpack);
  if (task.payload.kind != Payload::Kind::parameter_sum) return;
  HostTensor sum = claim(recv, micro_batch);
  put(task.payload, sum);
}

HostTensor Walk::claim(TaskId recv, std::uint32_t micro_batch) {
  const auto found = arrived_.extract({recv, micro_batch});
  check(!found.empty(), "a message that was taken twice");
  return std::move(found.mapped());
}

/// Sends what is ready, per peer in the list's order; `all`: the rest too, waiting for what it needs.
void Walk::send_ready(bool all) {
  for (auto& [peer, queue] : to_send_)
    for (; !queue.empty(); queue.pop_front()) {
      const Task& task = program_.task(queue.front().task);
      if (all) wait_for(task, queue.front().micro_batch);
      if (!complete(task, queue.front().micro_batch)) break;
      send(queue.front());
    }
}

void Walk::send(const Step& step) {
  const Task& task = program_.task(step.task);
  const HostTensor tensor = payload_of(task, step.micro_batch);
  Bytestring message;
  const auto pack = [&] { message = wire_.pack(step.task, step_, tensor); };
  task.codec.kind == CodecKind::none ? pack() : timed("codec", nullptr, pack);
  transport_.send(rank_of_.at(task.peer), {task.match.value, step.micro_batch, step_}, std::move(message));
}

HostTensor Walk::payload_of(const Task& task, std::uint32_t micro_batch) {
  const Payload& payload = task.payload;
  if (payload.kind == Payload::Kind::gradient) {
    const auto found = input_gradients_.extract({payload.tensor, micro_batch});
    check(!found.empty(), "the backend gave no gradient of " + payload.name);
    return std::move(found.mapped());
  }
  if (payload.kind == Payload::Kind::activation) {
    const auto found = outputs_.find({payload.tensor, micro_batch});
    check(found != outputs_.end(), "the backend gave no " + payload.name);
    if (--found->second.second > 0) return found->second.first;
    HostTensor last = std::move(found->second.first);
    outputs_.erase(found);
    return last;
  }
  fold();
  HostTensor bucket = HostTensor::zeros({payload.end - payload.begin});
  for_each_piece(payload, store_.gradients, [&](std::span<const float> piece, std::size_t at) {
    std::ranges::copy(piece, bucket.floats().begin() + static_cast<std::ptrdiff_t>(at));
  });
  return bucket;
}

}  // namespace fusion::exec
