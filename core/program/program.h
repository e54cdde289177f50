// The Program: what each device computes, sends and receives, in which order. The only thing a runner reads.
//
// A Task stands for one piece of work that is done once per micro-batch, or once per iteration; a Step is one instance
// of it, and each device has an ordered list of Steps, which is kept by its repetitions (step_list.h). So a program of
// p stages and m micro-batches holds O(p) tasks and, in the usual orders, O(p) of everything.
//
// What a runner must do:
//   - compute, reduce and update steps of a device run one at a time, in the order of its list;
//   - a step starts only when its task's `after` are complete: for the same micro-batch if both are per micro-batch,
//     else for all of them;
//   - a send is ready when its `after` are complete and blocks nothing on its device; the messages of one channel
//     (sending device, receiving device) travel one at a time, in the order of the sender's list;
//   - receives are posted ahead; a recv is complete when its message has arrived.
//
// Formats to come need no new field: replicas are more stages and `exchange` tasks, a collective is sends, recvs and
// reduces over ranges of a bucket of parameters, virtual stages are several stages with one device, a split backward is
// two phases.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/plan/codec.h"
#include "core/plan/schedule.h"
#include "core/program/order.h"
#include "core/program/step_list.h"

namespace fusion {

enum class TaskKind : std::uint8_t { compute, send, recv, reduce, update };
std::string_view name_of(TaskKind);

/// What a message carries, or a reduce adds: a tensor, its gradient, or a range of parameter gradients. The receiver of
/// a gradient waits for a reduce that adds it to its own; that of a sum takes it over.
struct Payload {
  enum class Kind : std::uint8_t { none, activation, gradient, parameter_gradient, parameter_sum };
  Kind kind = Kind::none;
  TensorId tensor;                      ///< activation, gradient
  std::vector<ParameterId> parameters;  ///< parameter_gradient, parameter_sum: a bucket, flattened in this order …
  std::int64_t begin = 0, end = 0;      ///< … and the elements of it that are meant
  std::string name;                     ///< for people: "h.3.add", "wte.weight"
  bool operator==(const Payload&) const = default;
};
std::string_view name_of(Payload::Kind);

struct Task {
  TaskKind kind = TaskKind::compute;
  Phase phase = Phase::forward;
  bool per_micro_batch = true;  ///< false: once per iteration, micro-batch 0
  DeviceId device;
  StageId stage;              ///< compute runs this stage's ops; a message belongs to the stage at this end
  std::vector<TaskId> after;  ///< tasks of the same device

  // compute, reduce, update
  Seconds duration{};        ///< estimated; a simulator takes it, an executor measures its own
  Seconds codec_duration{};  ///< on top: decoding what comes in and encoding what goes out, done within this step
  Bytes allocates{};         ///< live bytes added at its start …
  Bytes frees{};             ///< … and given back at its end

  // send, recv
  DeviceId peer;
  TaskId match;  ///< the recv of a send, the send of a recv
  Payload payload;
  Codec codec;
  Bytes bytes{}, dense_bytes{};  ///< on the wire, and what `none` would send
  bool operator==(const Task&) const = default;
};

struct DeviceProgram {
  DeviceId device;
  Bytes static_bytes{};  ///< parameters, gradients, optimizer state, communication buffers
  StepList steps;
  bool operator==(const DeviceProgram&) const = default;
};

/// What a report says of the run beside its result.
struct RunInfo {
  std::string model, platform, policy, order, compress, collective;
  std::uint64_t seed = 0;
  std::size_t devices_available = 0;
  int micro_batches = 0;  ///< of each replica
  int replicas = 1;
  std::int64_t samples = 0, tokens = 0;  ///< per iteration
  Seconds predicted_iteration{};
  bool operator==(const RunInfo&) const = default;
};

struct Program {
  RunInfo info;
  std::vector<Stage> stages;
  std::vector<std::string> stage_names;  ///< "blocks 3-7"
  std::vector<Task> tasks;
  std::vector<DeviceProgram> devices;  ///< those used, in the order of their first stage

  const Task& task(TaskId id) const { return tasks[id.index()]; }
  bool operator==(const Program&) const = default;
};

inline bool is_message(const Task& task) { return task.kind == TaskKind::send || task.kind == TaskKind::recv; }

/// How often a task is done in one iteration.
inline std::uint32_t instances(const Program& program, const Task& task) {
  return task.per_micro_batch ? static_cast<std::uint32_t>(program.info.micro_batches) : 1;
}

/// Sum of the steps of a program.
std::size_t num_steps(const Program&);

/// Most bytes live on a device at once. The order of its steps decides it, not their times.
Bytes peak_memory(const Program&, const DeviceProgram&);

/// Short name of a task for people: "forward blocks 3-7", "send gradient h.3.add to b0.gpu1".
std::string describe(const Program&, const Platform&, TaskId);

}  // namespace fusion
