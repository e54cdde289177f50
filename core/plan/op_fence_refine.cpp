#include "core/plan/op_fence_refine.h"

#include <algorithm>

#include "core/plan/op_fence_line.h"
#include "core/platform/platform.h"

namespace fusion {
namespace {

constexpr std::size_t max_unit_moves = 12;  ///< tried per boundary and direction: those nearest to it in the order

/// A placement by units: stage of each unit, device of each stage.
struct Placement {
  std::vector<std::size_t> stage_of;
  std::vector<DeviceId> devices;
};

class Refiner {
 public:
  Refiner(const PolicyInput& input, std::span<const Unit> units, const std::vector<DeviceGroup>& groups, Judged start,
          std::size_t& max_judged)
      : input_(input),
        units_(units),
        groups_(groups),
        before_(units.size()),
        after_(units.size()),
        best_(std::move(start)),
        max_judged_(max_judged) {
    const std::vector<std::size_t> unit_of = unit_of_ops(input.graph, units);
    for (const Tensor& tensor : input.graph.tensors)
      for (const OpId reader : tensor.consumers) {
        const std::size_t from = unit_of[tensor.producer.index()], to = unit_of[reader.index()];
        if (from == to) continue;
        after_[from].push_back(to);
        before_[to].push_back(from);
      }
    placement_.stage_of.resize(units.size());
    for (std::size_t s = 0; s < best_.stages.size(); ++s) {
      placement_.devices.push_back(best_.stages[s].device);
      for (const OpId op : best_.stages[s].ops) placement_.stage_of[unit_of[op.index()]] = s;
    }
  }

  Judged run() {
    while (max_judged_ > 0)
      if (!(move_units() | swap_devices() | replace_devices() | merge_stages())) break;
    return std::move(best_);
  }

 private:
  std::size_t num_stages() const { return placement_.devices.size(); }

  std::vector<Stage> stages_of(const Placement& placement) const {
    std::vector<Stage> stages;
    for (const DeviceId device : placement.devices) stages.push_back({.device = device, .replica = 0, .ops = {}});
    for (std::size_t u = 0; u < units_.size(); ++u) {
      auto& ops = stages[placement.stage_of[u]].ops;
      ops.insert(ops.end(), units_[u].ops.begin(), units_[u].ops.end());
    }
    for (Stage& stage : stages) std::ranges::sort(stage.ops);
    return stages;
  }

  bool try_placement(const Placement& placement) {
    if (max_judged_ == 0) return false;
    std::vector<Stage> stages = stages_of(placement);
    if (std::ranges::any_of(stages, [](const Stage& stage) { return stage.ops.empty(); })) return false;
    --max_judged_;
    Judged judged = judge(input_, std::move(stages));
    if (!better(judged, best_)) return false;
    best_ = std::move(judged);
    placement_ = placement;
    return true;
  }

  /// Units of stage `from` that the DAG lets go to `to`, the stage before or after it.
  std::vector<std::size_t> movable(std::size_t from, std::size_t to) const {
    const auto& neighbours = to > from ? after_ : before_;
    std::vector<std::size_t> units;
    for (std::size_t u = 0; u < units_.size(); ++u)
      if (placement_.stage_of[u] == from &&
          std::ranges::none_of(neighbours[u], [&](std::size_t v) { return placement_.stage_of[v] == from; }))
        units.push_back(u);
    if (to > from) std::ranges::reverse(units);
    if (units.size() > max_unit_moves) units.resize(max_unit_moves);
    return units;
  }

  bool move_units() {
    bool improved = false;
    for (std::size_t s = 0; s + 1 < num_stages(); ++s)
      for (const bool forward : {true, false}) {
        const std::size_t from = forward ? s : s + 1, to = forward ? s + 1 : s;
        for (const std::size_t u : movable(from, to)) {
          Placement moved = placement_;
          moved.stage_of[u] = to;
          if (try_placement(moved)) {
            improved = true;
            break;  // what is movable has changed; the next sweep looks again
          }
        }
      }
    return improved;
  }

  bool swap_devices() {
    bool improved = false;
    for (std::size_t i = 0; i < num_stages(); ++i)
      for (std::size_t j = i + 1; j < num_stages(); ++j) {
        Placement swapped = placement_;
        std::swap(swapped.devices[i], swapped.devices[j]);
        improved |= try_placement(swapped);
      }
    return improved;
  }

  bool replace_devices() {
    bool improved = false;
    for (const DeviceGroup& group : groups_)
      for (std::size_t s = 0; s < num_stages(); ++s) {
        const auto idle = std::ranges::find_if(group.devices, [&](DeviceId id) {
          return std::ranges::find(placement_.devices, id) == placement_.devices.end();
        });
        if (idle == group.devices.end()) break;
        Placement replaced = placement_;
        replaced.devices[s] = *idle;
        improved |= try_placement(replaced);
      }
    return improved;
  }

  /// Stage s and s + 1 on the device of either.
  bool merge_stages() {
    bool improved = false;
    for (std::size_t s = 0; s + 1 < num_stages(); ++s)
      for (const std::size_t dropped : {s, s + 1}) {
        if (s + 1 >= num_stages()) break;
        Placement merged = placement_;
        merged.devices.erase(merged.devices.begin() + static_cast<std::ptrdiff_t>(dropped));
        for (std::size_t& stage : merged.stage_of) stage -= stage > s ? 1 : 0;
        improved |= try_placement(merged);
      }
    return improved;
  }

  const PolicyInput& input_;
  std::span<const Unit> units_;
  const std::vector<DeviceGroup>& groups_;
  std::vector<std::vector<std::size_t>> before_, after_;  ///< neighbours of each unit in the DAG
  Judged best_;
  Placement placement_;
  std::size_t& max_judged_;
};

}  // namespace

Judged refine(const PolicyInput& input, std::span<const Unit> units, const std::vector<DeviceGroup>& groups,
              Judged start, std::size_t& max_judged) {
  return Refiner(input, units, groups, std::move(start), max_judged).run();
}

}  // namespace fusion
