// Tensors to messages and back, by the codec of each edge, and what the codecs remember of an edge from one message to
// the next (error feedback, references).
//
// `none` and integers travel as they lie in memory, without a header: the plan's bytes exactly. A state has a name that
// does not depend on ranks: what travels, the tensor, the first op of the stage that reads it, the codec. So another
// plan that has the same edge goes on with its state.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "core/compress/state.h"
#include "core/plan/codec_course.h"
#include "core/program/program.h"
#include "exec/checkpoint.h"
#include "exec/execute_council.h"
#include "exec/host_tensor.h"

namespace fusion::exec {

class Wire {
 public:
  /// The program, graph and course outlive it.
  Wire(const Program& program, const Graph& graph, const CodecCourse& course)
      : program_(program), graph_(graph), course_(course) {}

  /// A message of step `step`, from 0: the course says how much of the edge's codec holds then.
  Bytestring pack(TaskId send, std::int64_t step, const HostTensor&);
  /// Throws RuntimeFault for a message that is not what the task awaits.
  HostTensor unpack(TaskId recv, std::int64_t step, Bytestring);

  /// The states of this rank's edges, as a checkpoint holds them, and back. A state that the checkpoint lacks, or has
  /// in another size (of another micro-batch), starts afresh at both ends.
  void save(NamedTensors&) const;
  void restore(const NamedTensors&, DeviceId);

 private:
  compress::TensorState& state(TaskId);
  /// Absent where the tensor travels as it is.
  std::optional<Coding> coding(const Task&, std::int64_t step) const;
  std::span<const float> values_to_code(const HostTensor&, Coding&, compress::TensorState&);
  const Program& program_;
  const Graph& graph_;
  const CodecCourse& course_;
  compress::CodecStates states_;
  compress::CodecWorkspace workspace_;
  std::vector<float> kept_;
  std::vector<std::uint64_t> order_;
};

/// Names of the states in a checkpoint that `restore` can give to no edge of this program: the edge has gone, or has
/// another size.
std::set<std::string> dropped_states(const NamedTensors&, const Program&, const Graph&);

}  // namespace fusion::exec
