#include "core/engine/message_lists.h"

#include <map>
#include <numeric>

#include "core/report/report.h"

namespace fusion {

MessageLists message_lists(const Program& program) {
  MessageLists lists;
  std::map<DeviceId, std::uint32_t> list_of;
  for (std::uint32_t d = 0; d < program.devices.size(); ++d) list_of[program.devices[d].device] = d;
  std::map<Channel, std::uint32_t> number;
  for (const Channel& channel : channels(program)) {
    number[channel] = static_cast<std::uint32_t>(lists.sender.size());
    lists.sender.push_back(list_of.at(channel.from));
  }
  lists.first.assign(lists.sender.size() + 1, 0);
  for (const Task& task : program.tasks) {
    const bool is_send = task.kind == TaskKind::send;
    lists.device_of.push_back(list_of.at(task.device));
    lists.channel_of.push_back(is_send ? number.at({task.device, task.peer}) : 0);
    if (is_send) lists.first[lists.channel_of.back() + 1] += instances(program, task);
  }
  std::partial_sum(lists.first.begin(), lists.first.end(), lists.first.begin());
  lists.positions.resize(lists.first.back());
  std::vector<std::size_t> fill(lists.first.begin(), lists.first.end() - 1);
  for (const DeviceProgram& device : program.devices)
    for (std::size_t i = 0; i < device.steps.size(); ++i) {
      const TaskId task = device.steps[i].task;
      if (program.task(task).kind == TaskKind::send)
        lists.positions[fill[lists.channel_of[task.index()]]++] = static_cast<std::uint32_t>(i);
    }
  return lists;
}

}  // namespace fusion
