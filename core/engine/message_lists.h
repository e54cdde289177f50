// The messages of a program by channel, each in the order of its sender's list: what travels one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/program/program.h"

namespace fusion {

/// Channels are numbered as `channels(program)` numbers them.
struct MessageLists {
  std::vector<std::uint32_t> device_of;   ///< by task: index of its device in Program::devices
  std::vector<std::uint32_t> channel_of;  ///< by task: channel of a send; 0 for others
  std::vector<std::uint32_t> sender;      ///< by channel: index into Program::devices
  std::vector<std::size_t> first;         ///< by channel and one more: range of `positions`
  std::vector<std::uint32_t> positions;   ///< of sends in their sender's list of steps

  std::size_t num_channels() const { return sender.size(); }
  std::span<const std::uint32_t> of(std::size_t channel) const {
    return std::span(positions).subspan(first[channel], first[channel + 1] - first[channel]);
  }
};
MessageLists message_lists(const Program&);

inline bool is_message(const Task& task) { return task.kind == TaskKind::send || task.kind == TaskKind::recv; }

/// How often a task is done in one iteration.
inline std::uint32_t instances(const Program& program, const Task& task) {
  return task.per_micro_batch ? static_cast<std::uint32_t>(program.info.micro_batches) : 1;
}

}  // namespace fusion
