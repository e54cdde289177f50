// What may run next: the bookkeeping of a program in flight, without an engine. An engine starts what `take_ready`
// gives it and tells when each piece has ended; times never enter here.
//
// Memory: 2 bytes per step for what it still waits for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/engine/message_lists.h"
#include "core/platform/platform.h"
#include "core/program/program.h"

namespace fusion {

/// Work that can start now: the next step of a device, or the next message of a channel.
struct Start {
  enum class Kind : std::uint8_t { step, message };
  Kind kind;
  std::uint32_t place;  ///< index into Program::devices, or into channels(program)
  Step step;
  bool operator==(const Start&) const = default;
};

class Replay {
 public:
  /// The program outlives this object and is valid (core/program/lower.h).
  explicit Replay(const Program&);

  /// In a fixed order; empty until something ends that lets more start.
  std::optional<Start> take_ready();

  /// The running step of a device has ended; its next one may start.
  void step_ended(std::uint32_t device);
  /// The message in the channel has left it; the next one may enter. Its arrival is told apart.
  void channel_freed(std::uint32_t channel);
  /// A message has arrived at its receiver. `send` is what `take_ready` gave.
  void arrived(Step send);

  std::size_t num_channels() const { return channels_.size(); }
  bool finished() const { return remaining_ == 0; }
  /// One line per task that still waits, with its peer and bytes; at most `limit` of them and how many more.
  std::string what_waits(const Platform&, std::size_t limit = 20) const;

 private:
  struct Device {
    StepList::Iterator next;  ///< in its list: the step that runs or comes next
    bool busy = false;
  };
  struct ChannelState {
    StepList::Iterator next;  ///< in MessageLists::sends
    bool busy = false;
  };
  static constexpr std::uint16_t complete_ = 0xffff;

  void number_steps();
  void link_successors();
  std::size_t index(TaskId task, std::uint32_t micro_batch) const { return first_[task.index()] + micro_batch; }
  std::uint32_t instances(TaskId task) const { return fusion::instances(program_, program_.task(task)); }
  void complete(Step);
  void release(TaskId task, std::uint32_t micro_batch);
  void try_device(std::uint32_t device);
  void try_channel(std::uint32_t channel);

  const Program& program_;
  const MessageLists lists_;
  std::vector<std::size_t> first_;         ///< by task: its first step's index
  std::vector<std::uint16_t> waiting_;     ///< by step: tasks it waits for, or complete_
  std::vector<std::uint32_t> unfinished_;  ///< by task: steps not complete
  std::vector<std::uint32_t> first_successor_;
  std::vector<TaskId> successors_;
  std::vector<Device> devices_;
  std::vector<ChannelState> channels_;
  std::vector<Start> ready_;
  std::size_t next_ready_ = 0;
  std::size_t remaining_ = 0;
};

}  // namespace fusion
