// A device's list of steps, or a channel's list of sends, without a word per step.
//
// A list is a sequence of *blocks*. A block is a *round* of steps and how often it is taken, each time with `stride`
// added to their micro-batches:
//
//     1F1B, stage s of p, m micro-batches, w = min(m, p - s)
//       round                                       rounds   stride
//       recv F0, F0, send F0                        w        1
//       recv B0, B0, send B0, recv Fw, Fw, send Fw  m - w    1
//       recv B(m-w), B(m-w), send B(m-w)            w        1
//
// so it takes as much memory for 65,535 micro-batches as for 64. Any list can be written so: in the worst case it is
// one block that is taken once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <span>
#include <vector>

#include "core/base/ids.h"
#include "core/program/order.h"

namespace fusion {

/// One instance of a task.
struct Step {
  TaskId task;
  std::uint32_t micro_batch = 0;
  bool operator==(const Step&) const = default;
};

class StepList {
 public:
  struct Block {
    std::uint32_t first = 0, size = 0;  ///< where its round stands in the steps kept
    std::uint32_t rounds = 1;
    std::uint32_t stride = 0;  ///< modulo 2^32: descending lists have a stride of 2^32 - 1
    bool operator==(const Block&) const = default;
  };
  class Iterator;

  StepList() = default;
  StepList(std::vector<Step> steps);  // NOLINT(google-explicit-constructor): a list is a list
  StepList(std::initializer_list<Step> steps) : StepList(std::vector<Step>(steps)) {}

  /// Linear in the blocks.
  std::size_t size() const;
  bool empty() const { return blocks_.empty(); }
  Iterator begin() const;
  Iterator end() const;

  std::span<const Block> blocks() const { return blocks_; }
  std::span<const Step> round(const Block& block) const { return std::span(steps_).subspan(block.first, block.size); }

  /// Steps added from now on make the round of a new block. One of one round goes on with a block of one round.
  void begin_block(std::uint32_t rounds, std::uint32_t stride);
  /// To the round of the last block.
  void add(Step);
  /// At the end of the list.
  void push_back(Step step) {
    begin_block(1, 0);
    add(step);
  }
  void shrink_to_fit();

  /// As sequences of steps.
  bool operator==(const StepList&) const;

 private:
  std::vector<Step> steps_;
  std::vector<Block> blocks_;  ///< none of them empty, once a step has been added after it
};

class StepList::Iterator {
 public:
  using value_type = Step;
  using difference_type = std::ptrdiff_t;
  using iterator_concept = std::forward_iterator_tag;

  Iterator() = default;
  Iterator(const StepList& list, std::size_t block) : list_(&list), block_(static_cast<std::uint32_t>(block)) {}

  Step operator*() const {
    Step step = list_->steps_[block().first + at_];
    step.micro_batch += offset_;
    return step;
  }
  Iterator& operator++() {
    if (++at_ == block().size) next_round();
    return *this;
  }
  Iterator operator++(int) {
    const Iterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Iterator&) const = default;

  bool at_end() const { return block_ == list_->blocks_.size(); }
  std::size_t block_index() const { return block_; }
  std::size_t index_in_round() const { return at_; }
  std::uint32_t rounds_begun() const { return round_; }  ///< of this block, before the one that the step is in
  /// The block that the step is in. Precondition: not at the end.
  const Block& block() const { return list_->blocks_[block_]; }
  /// Goes on as after so many rounds more of the block. Precondition: that leaves it in the block.
  void skip_rounds(std::uint32_t rounds) {
    round_ += rounds;
    offset_ += rounds * block().stride;
  }

 private:
  void next_round() {
    at_ = 0;
    offset_ += block().stride;
    if (++round_ < block().rounds) return;
    ++block_;
    round_ = offset_ = 0;
  }

  const StepList* list_ = nullptr;
  std::uint32_t block_ = 0, at_ = 0, round_ = 0;
  std::uint32_t offset_ = 0;  ///< added to the micro-batches of the round
};

inline StepList::Iterator StepList::begin() const { return {*this, 0}; }
inline StepList::Iterator StepList::end() const { return {*this, blocks_.size()}; }

/// Step by step: for programs that are changed by hand.
std::vector<Step> expand(const StepList&);

/// The steps whose task is wanted, in the same order. Linear in the rounds, not in the steps.
StepList filter(const StepList&, const std::function<bool(TaskId)>& wanted);

/// What one turn of a device does, for every chunk and phase: what it waits for, the work, what it hands on.
class TurnTable {
 public:
  std::vector<TaskId>& at(int chunk, Phase phase);
  /// Empty where the device has nothing to do.
  std::span<const TaskId> of(const Slot&) const;

 private:
  std::vector<std::vector<TaskId>> turns_;  ///< by chunk, then phase
};

/// The list of a device that takes these turns: each slot stands for its turn's tasks in its micro-batch. Finds the
/// rounds in which the slots repeat.
StepList step_list(const TurnTable&, std::span<const Slot>);

}  // namespace fusion
