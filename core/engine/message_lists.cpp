#include "core/engine/message_lists.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/report/report.h"

namespace fusion {
namespace {

/// The list of each device, split.
std::vector<StepList> sends_by_channel(const Program& program, const MessageLists& lists) {
  std::vector<StepList> sends(lists.num_channels());
  std::vector<const StepList::Block*> last(lists.num_channels());
  for (const DeviceProgram& device : program.devices)
    for (const StepList::Block& block : device.steps.blocks())
      for (const Step step : device.steps.round(block)) {
        if (program.task(step.task).kind != TaskKind::send) continue;
        const std::uint32_t channel = lists.channel_of[step.task.index()];
        if (std::exchange(last[channel], &block) != &block) sends[channel].begin_block(block.rounds, block.stride);
        sends[channel].add(step);
      }
  for (StepList& list : sends) list.shrink_to_fit();
  return sends;
}

}  // namespace

MessageLists message_lists(const Program& program) {
  MessageLists lists;
  DeviceId last{};
  for (const DeviceProgram& device : program.devices) last = std::max(last, device.device);
  std::vector<std::uint32_t> list_of(last.index() + 1);
  for (std::uint32_t d = 0; d < program.devices.size(); ++d) list_of[program.devices[d].device.index()] = d;
  std::unordered_map<std::uint64_t, std::uint32_t> number;  // by pair of devices; asked, never walked through
  const auto pair = [](DeviceId from, DeviceId to) { return std::uint64_t{from.value} << 32 | to.value; };
  for (const Channel& channel : channels(program)) {
    number[pair(channel.from, channel.to)] = static_cast<std::uint32_t>(lists.sender.size());
    lists.sender.push_back(list_of[channel.from.index()]);
  }
  for (const Task& task : program.tasks) {
    lists.device_of.push_back(list_of[task.device.index()]);
    lists.channel_of.push_back(task.kind == TaskKind::send ? number.at(pair(task.device, task.peer)) : 0);
  }
  lists.sends = sends_by_channel(program, lists);
  return lists;
}

}  // namespace fusion
