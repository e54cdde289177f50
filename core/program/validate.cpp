// A program as a graph of steps. Its nodes are the instances (task, micro-batch); an edge says "completes before".
// Kahn's algorithm proves that every step can run; what it leaves over holds a cycle. Linear in steps and edges.
#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/program/lower.h"

namespace fusion {
namespace {

using Node = std::uint32_t;
constexpr Node none = ~Node{0};

class Checker {
 public:
  Checker(const Program& program, const Platform& platform, Sends sends, const std::string& source)
      : program_(program), platform_(platform), sends_(sends), source_(source) {}

  void run() {
    check_devices();
    for (std::size_t t = 0; t < program_.tasks.size(); ++t) check_task(TaskId(t));
    number_nodes();
    check_steps();
    check_order();
  }

 private:
  [[noreturn]] void fail(const std::string& key, const std::string& message) const {
    throw InputError(source_, key, message);
  }
  [[noreturn]] void fail(TaskId id, const std::string& message) const {
    fail("tasks[" + std::to_string(id.index()) + "]", message);
  }
  const std::string& name(DeviceId id) const { return platform_.device(id).name; }
  std::string text(TaskId id) const { return name(program_.task(id).device) + " " + describe(program_, platform_, id); }

  void check_devices() {
    if (num_steps(program_) == 0) fail("", "the program is empty: no device has anything to do");
    list_of_.assign(platform_.devices.size(), none);
    for (std::size_t d = 0; d < program_.devices.size(); ++d) {
      const std::string key = "devices[" + std::to_string(d) + "]";
      const DeviceId id = program_.devices[d].device;
      if (id.index() >= platform_.devices.size())
        fail(key, "device " + std::to_string(id.index()) + " does not exist: the platform has " +
                      std::to_string(platform_.devices.size()));
      if (list_of_[id.index()] != none) fail(key, name(id) + " has two lists of steps");
      list_of_[id.index()] = static_cast<Node>(d);
    }
    if (program_.info.micro_batches < 1)
      fail("micro_batches", std::to_string(program_.info.micro_batches) + " micro-batches; at least 1 is needed");
  }

  void check_task(TaskId id) const {
    const Task& task = program_.task(id);
    if (task.device.index() >= list_of_.size() || list_of_[task.device.index()] == none)
      fail(id, "runs on device " + std::to_string(task.device.index()) + ", which has no list of steps");
    for (const TaskId before : task.after) {
      if (before.index() >= program_.tasks.size())
        fail(id, text(id) + " waits for task " + std::to_string(before.index()) + ", which does not exist");
      if (program_.task(before).device != task.device)
        fail(id, text(id) + " waits for " + text(before) + ", which is on another device: only a recv can");
    }
    if (is_message(task)) return check_message(id);
    for (const Seconds time : {task.duration, task.codec_duration})
      if (!std::isfinite(time.value) || time < Seconds(0))
        fail(id, text(id) + " takes " + std::to_string(time.value) + " s; it must be finite and not negative");
  }

  void check_message(TaskId id) const {
    const Task& task = program_.task(id);
    const bool sends = task.kind == TaskKind::send;
    if (task.peer.index() >= list_of_.size() || list_of_[task.peer.index()] == none)
      fail(id, "a message between " + name(task.device) + " and device " + std::to_string(task.peer.index()) +
                   ", which has no list of steps");
    const std::string other = sends ? "recv" : "send";
    if (task.match.index() >= program_.tasks.size() || task.match == id) fail(id, text(id) + " has no " + other);
    const Task& match = program_.task(task.match);
    if (match.kind != (sends ? TaskKind::recv : TaskKind::send) || match.device != task.peer ||
        match.peer != task.device)
      fail(id, text(id) + " has no " + other);
    if (match.match != id)
      fail(id, text(id) + " shares its " + other + " with " + text(match.match) + "; each needs its own");
    if (task.peer == task.device) fail(id, text(id) + ": a device can't send to itself");
    if (task.bytes < Bytes(0)) fail(id, text(id) + " has a negative size");
    if (task.bytes != match.bytes || task.codec != match.codec || task.per_micro_batch != match.per_micro_batch)
      fail(id, text(id) + " is " + std::to_string(task.bytes.value) + " bytes as " + to_string(task.codec) + ", its " +
                   other + " " + std::to_string(match.bytes.value) + " bytes as " + to_string(match.codec) +
                   (task.per_micro_batch == match.per_micro_batch ? "" : ", less often"));
  }

  Node instances(const Task& task) const { return fusion::instances(program_, task); }

  void number_nodes() {
    first_node_.push_back(0);
    for (const Task& task : program_.tasks) {
      const std::size_t next = std::size_t{first_node_.back()} + instances(task);
      if (next >= none) fail("", "the program has more than 2^32 steps");
      first_node_.push_back(static_cast<Node>(next));
    }
  }
  Node node(TaskId task, Node micro_batch) const { return first_node_[task.index()] + micro_batch; }
  TaskId task_of(Node node) const {
    return TaskId(static_cast<std::size_t>(std::ranges::upper_bound(first_node_, node) - first_node_.begin()) - 1);
  }

  /// Every instance of every task stands once in the list of its device. Notes each step's predecessor in its list:
  /// among the steps that run one at a time on the device, and among the messages of its channel.
  void check_steps() {
    before_.assign(first_node_.back(), none);
    std::vector<bool> seen(first_node_.back());
    std::vector<Node> last_on_channel(program_.devices.size(), none);
    for (const DeviceProgram& device : program_.devices) {
      Node last = none;
      std::ranges::fill(last_on_channel, none);
      for (const Step step : device.steps) {
        check_step(device, step, seen);
        const Task& task = program_.task(step.task);
        Node* chain = &last;
        if (sends_ == Sends::buffered && task.kind == TaskKind::send)
          chain = &last_on_channel[list_of_[task.peer.index()]];
        if (sends_ == Sends::buffered && task.kind == TaskKind::recv) continue;
        const Node here = node(step.task, step.micro_batch);
        before_[here] = std::exchange(*chain, here);
      }
    }
    for (Node n = 0; n < seen.size(); ++n)
      if (!seen[n]) fail(task_of(n), step_text(n) + " is in no list of steps");
  }

  void check_step(const DeviceProgram& device, const Step& step, std::vector<bool>& seen) const {
    if (step.task.index() >= program_.tasks.size())
      fail(name(device.device), "task " + std::to_string(step.task.index()) + " does not exist");
    const Task& task = program_.task(step.task);
    if (task.device != device.device)
      fail(step.task, text(step.task) + " stands in the list of " + name(device.device));
    if (step.micro_batch >= instances(task))
      fail(step.task, text(step.task) + " has no micro-batch " + std::to_string(step.micro_batch));
    const Node here = node(step.task, step.micro_batch);
    if (seen[here]) fail(step.task, step_text(here) + " stands twice in the list of " + name(device.device));
    seen[here] = true;
  }

  /// Under rendezvous a send and its recv are one event: both ends reach it, then both go on. The send stands for it.
  Node event(Node n, TaskId task) const {
    if (sends_ == Sends::buffered || program_.task(task).kind != TaskKind::recv) return n;
    return node(program_.task(task).match, n - first_node_[task.index()]);
  }

  /// Calls `visit` for each node that must complete before `n` can.
  template <class Visit>
  void for_each_before(Node n, TaskId id, Visit visit) const {
    const Task& task = program_.task(id);
    const Node micro_batch = n - first_node_[id.index()];
    if (before_[n] != none) visit(before_[n]);
    for (const TaskId before : task.after) {
      const bool same = task.per_micro_batch && program_.task(before).per_micro_batch;
      const Node from = same ? micro_batch : 0, to = same ? micro_batch + 1 : instances(program_.task(before));
      for (Node i = from; i < to; ++i) visit(node(before, i));
    }
    if (task.kind == TaskKind::recv && sends_ == Sends::buffered) visit(node(task.match, micro_batch));
  }

  /// Calls `visit(before, after)` for every edge between events.
  template <class Visit>
  void for_each_edge(Visit visit) const {
    for (std::size_t t = 0; t < program_.tasks.size(); ++t)
      for (Node n = first_node_[t]; n < first_node_[t + 1]; ++n) {
        const Node here = event(n, TaskId(t));
        for_each_before(n, TaskId(t), [&](Node before) { visit(event_of(before), here); });
      }
  }
  Node event_of(Node n) const { return sends_ == Sends::buffered ? n : event(n, task_of(n)); }

  void check_order() {
    const std::size_t size = first_node_.back();
    std::vector<std::uint32_t> waiting(size, 0);
    std::vector<std::size_t> first(size + 1, 0);
    for_each_edge([&](Node before, Node after) { ++waiting[after], ++first[before + 1]; });
    std::partial_sum(first.begin(), first.end(), first.begin());
    std::vector<Node> successors(first.back());
    std::vector<std::size_t> fill(first.begin(), first.end() - 1);
    for_each_edge([&](Node before, Node after) { successors[fill[before]++] = after; });

    std::vector<Node> ready;
    for (Node n = 0; n < size; ++n)
      if (waiting[n] == 0) ready.push_back(n);
    std::size_t done = 0;
    for (; !ready.empty(); ++done) {
      const Node n = ready.back();
      ready.pop_back();
      for (std::size_t i = first[n]; i < first[n + 1]; ++i)
        if (--waiting[successors[i]] == 0) ready.push_back(successors[i]);
    }
    if (done < size) fail_with_cycle(waiting);
  }

  /// Every node that Kahn's algorithm leaves waits for another one; walking back along them must come round.
  [[noreturn]] void fail_with_cycle(const std::vector<std::uint32_t>& waiting) const {
    std::vector<Node> one_before(waiting.size(), none);
    for_each_edge([&](Node before, Node after) {
      if (waiting[before] > 0 && waiting[after] > 0) one_before[after] = before;
    });
    Node n = static_cast<Node>(std::ranges::find_if(one_before, [](Node b) { return b != none; }) - one_before.begin());
    std::vector<bool> passed(waiting.size());
    for (; !passed[n]; n = one_before[n]) passed[n] = true;

    std::vector<Node> cycle = {n};
    for (Node at = one_before[n]; at != n; at = one_before[at]) cycle.push_back(at);
    std::ranges::rotate(cycle, std::ranges::min_element(cycle));
    std::reverse(cycle.begin() + 1, cycle.end());
    cycle.push_back(cycle.front());
    std::string text;
    for (const Node at : cycle) text += (text.empty() ? "" : " -> ") + step_text(at);
    fail("", "the program can't finish, each of these waits for the one before it: " + text);
  }

  /// "r0 send F1", "r1 backward B3", "r0 send F1 h.3.add"
  std::string step_text(Node n) const {
    const TaskId id = task_of(n);
    const Task& task = program_.task(id);
    std::string text = name(task.device) + " " +
                       std::string(task.kind == TaskKind::compute ? name_of(task.phase) : name_of(task.kind));
    if (task.per_micro_batch) {
      constexpr std::string_view letters = "FBIWXU";
      text += {' ', letters[static_cast<std::size_t>(task.phase)]};
      text += std::to_string(n - first_node_[id.index()]);
    }
    return task.payload.name.empty() ? text : text + " " + task.payload.name;
  }

  const Program& program_;
  const Platform& platform_;
  const Sends sends_;
  const std::string& source_;
  std::vector<Node> list_of_;     ///< by device of the platform: index of its list, or none
  std::vector<Node> first_node_;  ///< by task, and the total at the end
  std::vector<Node> before_;      ///< by node: the step of the same chain before it, or none
};

}  // namespace

void validate(const Program& program, const Platform& platform, Sends sends, const std::string& source) {
  Checker(program, platform, sends, source).run();
}

}  // namespace fusion
