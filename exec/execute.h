// Runs a Program with real numbers: one call per rank, each walks the list of its device.
//
// How the bits come out equal on any number of ranks, for codecs that lose nothing:
//   - micro-batches run backward in ascending order in every pipeline order, and gradients of parameters add up so;
//   - a tensor that several other stages read gets their gradients added from the last stage to the first, then its own
//     stage's, as reverse-mode differentiation of the whole meets them. One exception: a stage that reads it twice and
//     is not the last to read it adds its two first, a + (b + c) for (a + b) + c, which may cost the last bit;
//   - copies of a tied parameter add the gradients of all holders from the first stage to the last;
//   - the global norm adds the squares of the parameters in the order of their ids, whoever holds them.
// Replicas take a run of a step's micro-batches each, so their sums are bracketed otherwise than in one process: equal
// up to the last bits. Copies of a parameter stay equal in all bits, since each element is summed in one place or in
// one order.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/codec_course.h"
#include "core/program/program.h"
#include "core/report/report.h"
#include "exec/backend.h"
#include "exec/data.h"
#include "exec/optimizer.h"
#include "exec/transport.h"

namespace fusion::exec {

/// Bytes and time of one channel within one step.
struct ChannelUse {
  int from = 0, to = 0;  ///< ranks
  Bytes bytes{};
  Seconds busy{};  ///< with a message on the way
  std::size_t messages = 0;
};

/// One step as rank 0 saw it.
struct StepSummary {
  std::int64_t step = 0;      ///< steps done, counting from 1
  double loss = 0;            ///< mean over the step's micro-batches
  Seconds iteration{};        ///< until every rank had ended it
  std::vector<Seconds> busy;  ///< by rank: computing and coding
  std::vector<ChannelUse> channels;
};

struct CheckpointOptions {
  std::filesystem::path directory;  ///< empty: no checkpoints
  std::int64_t every = 0;           ///< steps; 0: only when the run ends
  std::int64_t keep = 0;            ///< newest steps that stay; 0: all
  bool resume = false;              ///< from the newest complete one, or from the start where there is none
  std::string model;                ///< name and network_hash; a checkpoint of another model is refused
};

struct TrainOptions {
  std::int64_t steps = 1;  ///< until so many are done, those before a resume included
  std::uint64_t seed = 1;
  OptimizerSettings optimizer;
  BackendOptions backend;
  CheckpointOptions checkpoint;
  CodecCourse codecs;
  Seconds deadline{30};                             ///< until the first step is measured; see planned_deadline
  bool fixed_deadline = false;                      ///< keep it
  bool timeline = false;                            ///< of the second step, where there is one
  std::function<void(const StepSummary&)> on_step;  ///< rank 0
  std::function<void(const std::string&)> notice;   ///< rank 0: what the user should know
  const std::atomic<bool>* stop = nullptr;          ///< set: end after this step, orderly
};

struct RankResult {
  std::int64_t first_step = 0, steps = 0;  ///< done before this run, and after it
  bool stopped = false;                    ///< by TrainOptions::stop of any rank
  ParameterStore store;                    ///< values, and the gradients of the last step
  // rank 0
  std::vector<double> loss;          ///< by step of this run
  Measured measured;                 ///< mean over the steps but the first, which warms up
  std::vector<ChannelUse> channels;  ///< likewise, by channels(program)
};

/// Throws InputError for a program that is simulated and not executed yet: 16-bit, several stages on one device, a
/// split backward pass.
void require_executable(const Program&, const Graph&);

/// Runs this rank's part to the end. `data` may be null where needs_data says no. Throws InputError for what can't be
/// executed (a 16-bit graph, several stages on one device, an op that the backend does not have, a checkpoint that does
/// not fit), RuntimeFault for a loss that is not finite, PeerLost.
RankResult execute(const Program&, const Graph&, Transport&, const BackendRow&, const DataSet* data,
                   const TrainOptions&);

/// Whether this rank's stage has input or label ops.
bool needs_data(const Program&, const Graph&, int rank);

/// How long a rank may be silent while nothing has been measured yet: several times the longest step or transfer of the
/// plan, and no less than a floor that an overloaded machine keeps.
Seconds planned_deadline(const Program&, const Platform&);

/// After how long a rank that works must be stuck: many times `longest`, what a piece of its work has taken (none
/// before the first step has ended), and no less than a minute, or ten times a deadline that the user gives. Nothing
/// where there is neither.
std::optional<Seconds> work_limit(std::optional<Seconds> given_deadline, std::optional<Seconds> longest);

}  // namespace fusion::exec
