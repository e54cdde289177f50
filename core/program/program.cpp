#include "core/program/program.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/platform/platform.h"

namespace fusion {

std::string_view name_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::compute:
      return "compute";
    case TaskKind::send:
      return "send";
    case TaskKind::recv:
      return "recv";
    case TaskKind::reduce:
      return "reduce";
    case TaskKind::update:
      return "update";
  }
  check(false, "a task kind without a name");
  return {};
}

std::string_view name_of(Payload::Kind kind) {
  switch (kind) {
    case Payload::Kind::none:
      return "";
    case Payload::Kind::activation:
      return "activation";
    case Payload::Kind::gradient:
      return "gradient";
    case Payload::Kind::parameter_gradient:
      return "parameter gradient";
    case Payload::Kind::parameter_sum:
      return "sum of parameter gradients";
  }
  check(false, "a payload kind without a name");
  return {};
}

std::size_t num_steps(const Program& program) {
  std::size_t steps = 0;
  for (const DeviceProgram& device : program.devices) steps += device.steps.size();
  return steps;
}

Bytes peak_memory(const Program& program, const DeviceProgram& device) {
  Bytes live = device.static_bytes, peak = live;
  for (const StepList::Block& block : device.steps.blocks()) {
    Bytes in_round{}, most{};  // above what is live when a round begins
    for (const Step step : device.steps.round(block)) {
      const Task& task = program.task(step.task);
      in_round += task.allocates;
      most = std::max(most, in_round);
      in_round -= task.frees;
    }
    // Each round begins higher than the one before by what a round leaves, so the first or the last reaches the peak.
    const Bytes last = live + in_round * static_cast<std::int64_t>(block.rounds - 1);
    peak = std::max(peak, std::max(live, last) + most);
    live = last + in_round;
  }
  return peak;
}

std::string describe(const Program& program, const Platform& platform, TaskId id) {
  const Task& task = program.task(id);
  const auto words = [](std::initializer_list<std::string_view> parts) {
    std::string text;
    for (const std::string_view part : parts)
      if (!part.empty()) text.append(text.empty() ? "" : " ").append(part);
    return text;
  };
  const bool has_stage = task.stage.index() < program.stage_names.size();
  const std::string_view stage = has_stage ? std::string_view(program.stage_names[task.stage.index()]) : "";
  switch (task.kind) {
    case TaskKind::compute:
      return words({name_of(task.phase), stage});
    case TaskKind::update:
      return words({"update", stage});
    case TaskKind::reduce:
      return words({"reduce", name_of(task.payload.kind), task.payload.name});
    case TaskKind::send:
    case TaskKind::recv:
      break;
  }
  return words({name_of(task.kind), name_of(task.payload.kind), task.payload.name,
                task.kind == TaskKind::send ? "to" : "from", platform.device(task.peer).name});
}

}  // namespace fusion
