#include "exec/execute_checkpoint.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"

namespace fusion::exec {
namespace {
namespace fs = std::filesystem;

HostTensor tensor_of(const Shape& shape, std::span<const float> values) {
  HostTensor tensor = HostTensor::zeros(shape);
  std::ranges::copy(values, tensor.floats().begin());
  return tensor;
}

NamedTensors share_of(Walk& walk, const Graph& graph) {
  NamedTensors share;
  for (const ParameterId p : walk.part().parameters) {
    const Parameter& parameter = graph.parameter(p);
    const OptimizerState& state = walk.optimizer_states()[p.index()];
    share["p/" + parameter.name] = walk.store().values[p.index()];
    if (!state.first.empty()) share["m/" + parameter.name] = tensor_of(parameter.shape, state.first);
    if (!state.second.empty()) share["v/" + parameter.name] = tensor_of(parameter.shape, state.second);
  }
  walk.wire().save(share);
  return share;
}

DataState state_of(const Walk& walk, const DataFacts& data, std::int64_t steps) {
  const std::int64_t samples = walk.first_sample(steps);
  return {data.identity, samples, samples / data.num_samples, walk.samples_per_step()};
}

CheckpointInfo info_of(const TrainOptions& options, DataState data, std::int64_t steps, int num_ranks) {
  return {.step = steps,
          .seed = options.seed,
          .model = options.checkpoint.model,
          .optimizer = std::string(name_of(options.optimizer.kind)),
          .data = std::move(data),
          .num_ranks = num_ranks};
}

void require_equal(const fs::path& path, std::string_view key, const std::string& found, const std::string& wanted) {
  if (found != wanted)
    throw InputError(path.string(), key, "is of " + in_quotes(found) + "; this run has " + in_quotes(wanted));
}

void require_same_run(const fs::path& path, const CheckpointInfo& info, const TrainOptions& options,
                      const DataFacts& data) {
  require_equal(path, "model", info.model, options.checkpoint.model);
  require_equal(path, "optimizer", info.optimizer, std::string(name_of(options.optimizer.kind)));
  require_equal(path, "seed", std::to_string(info.seed), std::to_string(options.seed));
  require_equal(path, "data", info.data.identity, data.identity);
}

/// Precondition: some were dropped.
std::string notice_of(const std::set<std::string>& dropped) {
  const std::string others = dropped.size() == 1 ? "" : " and " + std::to_string(dropped.size() - 1) + " others";
  return "error feedback of " + *dropped.begin() + others +
         " has no edge of its size in this plan and is dropped: the losses go on near those of the earlier run, not on "
         "their bits";
}

void take_over(const Checkpoint& checkpoint, const fs::path& path, const std::string& name, std::span<float> values) {
  const auto found = checkpoint.tensors.find(name);
  if (found == checkpoint.tensors.end()) throw InputError(path.string(), name, "is missing");
  const std::span<const float> stored = found->second.floats();
  if (stored.size() != values.size()) throw InputError(path.string(), name, "has another size than the model's");
  std::ranges::copy(stored, values.begin());
}

/// Removes all but the newest steps that are complete, this one among them. Steps beyond it belong to a run that was
/// refused or cut off: they are nobody's reserve, and stay to be looked at. What can't be removed stays too, and does
/// no harm.
void remove_old_steps(const CheckpointOptions& options, std::int64_t written) {
  if (options.keep == 0) return;
  std::vector<std::pair<std::int64_t, fs::path>> steps;  // complete ones
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(options.directory, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("step-") || !fs::exists(entry.path() / "COMPLETE", ignored)) continue;
    const std::int64_t step = std::strtoll(name.c_str() + std::string_view("step-").size(), nullptr, 10);
    if (step <= written) steps.emplace_back(step, entry.path());
  }
  std::ranges::sort(steps, std::greater());
  for (std::size_t i = static_cast<std::size_t>(options.keep); i < steps.size(); ++i)
    fs::remove_all(steps[i].second, ignored);
}

}  // namespace

void write_step(Walk& walk, const Graph& graph, Council& council, const TrainOptions& options, const DataFacts& data,
                std::int64_t steps) {
  const Transport& transport = council.transport();
  const CheckpointInfo info = info_of(options, state_of(walk, data, steps), steps, transport.num_ranks());
  write_checkpoint(options.checkpoint.directory, info, transport.rank(), share_of(walk, graph));
  council.gather(Topic::written, steps, {}, "the checkpoint of step " + std::to_string(steps));
  if (transport.rank() == 0) {
    finish_checkpoint(options.checkpoint.directory, info);
    remove_old_steps(options.checkpoint, steps);
  }
  council.tell(Topic::finished, steps, {}, "the end of the checkpoint of step " + std::to_string(steps));
}

std::int64_t resume_step(Walk& walk, const Program& program, const Graph& graph, const TrainOptions& options,
                         const DataFacts& data, bool first_rank) {
  const CheckpointOptions& asked = options.checkpoint;
  if (asked.directory.empty()) return 0;
  make_durable_directory(asked.directory);
  require_writable(asked.directory / "a checkpoint");  // told now, not after hours
  std::vector<std::string> refused;
  const auto newest = newest_checkpoint(asked.directory, refused);
  const auto say = [&](const std::string& line) {
    if (first_rank && options.notice) options.notice(line);
  };
  if (!asked.resume && (newest || !refused.empty()))
    throw InputError(asked.directory.string(), "checkpoint",
                     "holds the steps of an earlier run; give --resume to go on, or another directory");
  for (const std::string& line : refused) say("passed over " + line);
  if (!newest && refused.size() > 1)  // the first may be torn by a kill; a later one leaves that before it whole
    throw InputError(asked.directory.string(), "checkpoint",
                     "none of its " + std::to_string(refused.size()) +
                         " steps is whole; mend or remove them, or give another directory");
  if (!newest && !refused.empty()) say("the one step in " + asked.directory.string() + " is torn: begins anew");
  if (!newest && refused.empty() && asked.resume)
    say("no checkpoint in " + asked.directory.string() + " yet: begins anew");
  if (!newest) return 0;

  const Checkpoint checkpoint = read_checkpoint(*newest);
  require_same_run(*newest, checkpoint.info, options, data);
  for (const ParameterId p : walk.part().parameters) {
    const std::string& name = graph.parameter(p).name;
    OptimizerState& state = walk.optimizer_states()[p.index()];
    take_over(checkpoint, *newest, "p/" + name, walk.store().values[p.index()].floats());
    if (!state.first.empty()) take_over(checkpoint, *newest, "m/" + name, state.first);
    if (!state.second.empty()) take_over(checkpoint, *newest, "v/" + name, state.second);
  }
  walk.wire().restore(checkpoint.tensors, walk.device());
  walk.parameters_changed();
  const auto& [identity, samples, epoch, samples_per_step] = checkpoint.info.data;
  walk.start_at(checkpoint.info.step, samples);
  const auto dropped = dropped_states(checkpoint.tensors, program, graph);
  if (!dropped.empty()) say(notice_of(dropped));
  if (samples_per_step != walk.samples_per_step())
    say("a step takes " + std::to_string(walk.samples_per_step()) + " samples, and took " +
        std::to_string(samples_per_step) + " before: goes on where the data was left, after " +
        std::to_string(samples) + " samples");
  say("goes on after step " + std::to_string(checkpoint.info.step) + " from " + newest->string());
  return checkpoint.info.step;
}

}  // namespace fusion::exec
