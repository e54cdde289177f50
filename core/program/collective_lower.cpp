// A list of transfers as tasks. A member's bucket is kept as ranges with the tasks that wrote each last: what a send of
// a range waits for, so that a member never waits for a whole round.
#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "core/plan/estimator.h"
#include "core/program/collective.h"

namespace fusion {
namespace {

using Tasks = std::vector<TaskId>;

void unite(Tasks& all, const Tasks& more) {
  for (const TaskId id : more)
    if (std::ranges::find(all, id) == all.end()) all.push_back(id);
}

/// Who wrote which elements last. Every element has writers.
class Writers {
 public:
  Writers(std::int64_t size, Tasks first) : size_(size) { from_[0] = std::move(first); }

  void write(std::int64_t begin, std::int64_t end, Tasks tasks) {
    cut(end);
    cut(begin);
    from_.erase(from_.find(begin), end < size_ ? from_.find(end) : from_.end());
    from_[begin] = std::move(tasks);
  }
  Tasks of(std::int64_t begin, std::int64_t end) const {
    Tasks all;
    for (auto at = std::prev(from_.upper_bound(begin)); at != from_.end() && at->first < end; ++at)
      unite(all, at->second);
    return all;
  }
  Tasks of_all() const { return of(0, size_); }

 private:
  void cut(std::int64_t at) {
    if (at < size_) from_.try_emplace(at, std::prev(from_.upper_bound(at))->second);
  }
  std::int64_t size_;
  std::map<std::int64_t, Tasks> from_;  ///< by the first element; up to the next one's
};

class AllReduce {
 public:
  AllReduce(Program& program, const Platform& platform, const std::vector<Member>& members, const Bucket& bucket)
      : program_(program), platform_(platform), members_(members), bucket_(bucket), tasks_(members.size()) {
    for (const Member& member : members) writers_.emplace_back(bucket.num_elements, member.after);
  }

  std::vector<MemberTasks> operator()(const std::vector<Transfer>& list) {
    for (auto begin = list.begin(), end = begin; begin != list.end(); begin = end) {
      end = std::find_if(begin, list.end(), [&](const Transfer& each) { return each.round != begin->round; });
      run_round({begin, end});
    }
    for (std::size_t m = 0; m < members_.size(); ++m) tasks_[m].done = writers_[m].of_all();
    return std::move(tasks_);
  }

 private:
  using Range = std::pair<std::int64_t, std::int64_t>;

  void run_round(std::span<const Transfer> round) {
    std::map<std::pair<std::uint32_t, Range>, Tasks> partial;  // what each member adds up, by range
    std::vector<std::pair<const Transfer*, TaskId>> sums;
    for (const Transfer& each : round) {
      const TaskId received = add_message(each);
      if (each.adds)
        partial[{each.to, {each.begin, each.end}}].push_back(received);
      else
        sums.emplace_back(&each, received);
    }
    for (const auto& [where, received] : partial) add_reduce(where.first, where.second, received);
    for (const auto& [each, received] : sums) writers_[each->to].write(each->begin, each->end, {received});
  }

  Task task_of(std::uint32_t member, Range range, bool adds) const {
    Task task;
    task.phase = Phase::exchange;
    task.per_micro_batch = false;
    task.device = members_[member].device;
    task.stage = members_[member].stage;
    task.payload.kind = adds ? Payload::Kind::parameter_gradient : Payload::Kind::parameter_sum;
    task.payload.parameters = bucket_.parameters;
    task.payload.begin = range.first;
    task.payload.end = range.second;
    task.payload.name = bucket_.name;
    return task;
  }
  Bytes bytes_of(Range range) const { return Bytes((range.second - range.first) * bucket_.bytes_per_element); }

  TaskId add(Task task, std::uint32_t member) {
    program_.tasks.push_back(std::move(task));
    tasks_[member].list.emplace_back(program_.tasks.size() - 1);
    return tasks_[member].list.back();
  }

  /// Returns the recv.
  TaskId add_message(const Transfer& each) {
    const Range range{each.begin, each.end};
    Task send = task_of(each.from, range, each.adds), recv = task_of(each.to, range, each.adds);
    send.kind = TaskKind::send;
    recv.kind = TaskKind::recv;
    send.peer = recv.device;
    recv.peer = send.device;
    send.bytes = send.dense_bytes = recv.bytes = recv.dense_bytes = bytes_of(range);
    send.after = writers_[each.from].of(each.begin, each.end);
    const TaskId sent = add(std::move(send), each.from);
    recv.match = sent;
    const TaskId received = add(std::move(recv), each.to);
    program_.tasks[sent.index()].match = received;
    return received;
  }

  void add_reduce(std::uint32_t member, Range range, const Tasks& received) {
    Task reduce = task_of(member, range, true);
    reduce.kind = TaskKind::reduce;
    reduce.duration = reduce_time(platform_, reduce.device, bytes_of(range), received.size() + 1);
    reduce.after = received;
    unite(reduce.after, writers_[member].of(range.first, range.second));
    writers_[member].write(range.first, range.second, {add(std::move(reduce), member)});
  }

  Program& program_;
  const Platform& platform_;
  const std::vector<Member>& members_;
  const Bucket& bucket_;
  std::vector<Writers> writers_;    ///< by member
  std::vector<MemberTasks> tasks_;  ///< by member
};

}  // namespace

Seconds reduce_time(const Platform& platform, DeviceId device, Bytes bytes, std::size_t num_parts) {
  return bytes * static_cast<std::int64_t>(num_parts + 1) / sustained_bandwidth(platform.gpu_of(device));
}

std::vector<MemberTasks> add_all_reduce(Program& program, const Platform& platform, const std::vector<Member>& members,
                                        const Bucket& bucket, const std::vector<Transfer>& list) {
  return AllReduce(program, platform, members, bucket)(list);
}

}  // namespace fusion
