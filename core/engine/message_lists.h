// The messages of a program by channel, each in the order of its sender's list: what travels one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/program/program.h"

namespace fusion {

/// Channels are numbered as `channels(program)` numbers them.
struct MessageLists {
  std::vector<std::uint32_t> device_of;   ///< by task: index of its device in Program::devices
  std::vector<std::uint32_t> channel_of;  ///< by task: channel of a send; 0 for others
  std::vector<std::uint32_t> sender;      ///< by channel: index into Program::devices
  std::vector<StepList> sends;            ///< by channel

  std::size_t num_channels() const { return sender.size(); }
};
MessageLists message_lists(const Program&);

}  // namespace fusion
