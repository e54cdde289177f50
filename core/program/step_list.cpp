#include "core/program/step_list.h"

#include <algorithm>
#include <iterator>

namespace fusion {
namespace {

constexpr std::size_t num_phases = static_cast<std::size_t>(Phase::update) + 1;

/// Longest round that is looked for: a device with many virtual stages repeats itself after many turns.
constexpr std::size_t longest_round = 1024;

std::size_t place(int chunk, Phase phase) {
  return static_cast<std::size_t>(chunk) * num_phases + static_cast<std::size_t>(phase);
}

/// Slots that are taken `rounds` times, each time for micro-batches `stride` later.
struct Run {
  std::span<const Slot> round;
  std::size_t rounds = 1;
  int stride = 0;
};

/// How far the slots repeat themselves after `size` of them: a number of rounds, at least 1.
Run run_of(std::span<const Slot> slots, std::size_t size) {
  const int stride = size < slots.size() ? slots[size].micro_batch - slots[0].micro_batch : 0;
  std::size_t i = size;
  for (; i < slots.size(); ++i) {
    const Slot &slot = slots[i], &before = slots[i - size];
    if (slot.phase != before.phase || slot.chunk != before.chunk || slot.micro_batch != before.micro_batch + stride)
      break;
  }
  return {slots.first(size), i / size, stride};
}

/// The run at the start of the slots that covers most of them. One round alone is no run, and two save nothing.
Run best_run(std::span<const Slot> slots) {
  Run best{slots.first(1)};
  std::size_t covered = 1;
  const std::size_t longest = std::min(longest_round, slots.size() / 3);
  for (std::size_t size = 1; size <= longest && 2 * covered < slots.size(); ++size) {
    const Run run = run_of(slots, size);
    if (run.rounds < 3 || size * run.rounds <= covered) continue;
    best = run;
    covered = size * run.rounds;
  }
  return best;
}

}  // namespace

StepList::StepList(std::vector<Step> steps) : steps_(std::move(steps)) {
  if (!steps_.empty()) blocks_.push_back({.size = static_cast<std::uint32_t>(steps_.size())});
}

std::size_t StepList::size() const {
  std::size_t sum = 0;
  for (const Block& block : blocks_) sum += std::size_t{block.size} * block.rounds;
  return sum;
}

void StepList::begin_block(std::uint32_t rounds, std::uint32_t stride) {
  if (!blocks_.empty()) {
    if (blocks_.back().size == 0)
      blocks_.pop_back();
    else if (rounds == 1 && blocks_.back().rounds == 1)
      return;
  }
  blocks_.push_back({static_cast<std::uint32_t>(steps_.size()), 0, rounds, rounds == 1 ? 0 : stride});
}

void StepList::add(Step step) {
  steps_.push_back(step);
  ++blocks_.back().size;
}

void StepList::shrink_to_fit() {
  if (!blocks_.empty() && blocks_.back().size == 0) blocks_.pop_back();
  steps_.shrink_to_fit();
  blocks_.shrink_to_fit();
}

bool StepList::operator==(const StepList& other) const {
  if (steps_ == other.steps_ && blocks_ == other.blocks_) return true;
  return size() == other.size() && std::equal(begin(), end(), other.begin());
}

std::vector<Step> expand(const StepList& list) {
  std::vector<Step> steps;
  steps.reserve(list.size());
  for (const Step step : list) steps.push_back(step);
  return steps;
}

StepList filter(const StepList& list, const std::function<bool(TaskId)>& wanted) {
  StepList some;
  for (const StepList::Block& block : list.blocks()) {
    some.begin_block(block.rounds, block.stride);
    for (const Step step : list.round(block))
      if (wanted(step.task)) some.add(step);
  }
  some.shrink_to_fit();
  return some;
}

std::vector<TaskId>& TurnTable::at(int chunk, Phase phase) {
  const std::size_t i = place(chunk, phase);
  if (i >= turns_.size()) turns_.resize(i + 1);
  return turns_[i];
}

std::span<const TaskId> TurnTable::of(const Slot& slot) const {
  const std::size_t i = place(slot.chunk, slot.phase);
  return i < turns_.size() ? std::span(turns_[i]) : std::span<const TaskId>();
}

StepList step_list(const TurnTable& turns, std::span<const Slot> slots) {
  StepList list;
  while (!slots.empty()) {
    const Run run = best_run(slots);
    list.begin_block(static_cast<std::uint32_t>(run.rounds), static_cast<std::uint32_t>(run.stride));
    for (const Slot& slot : run.round)
      for (const TaskId task : turns.of(slot)) list.add({task, static_cast<std::uint32_t>(slot.micro_batch)});
    slots = slots.subspan(run.round.size() * run.rounds);
  }
  list.shrink_to_fit();
  return list;
}

}  // namespace fusion
