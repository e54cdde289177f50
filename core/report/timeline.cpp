// Chrome trace events, written straight to text: a process per device, and threads (tracks) for what it computes, sends
// and receives. Slices of one track must not overlap, and messages to different peers do, or one whose latency runs
// while the next one is sent: such a message moves to a further track, "send 2".
#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/base/error.h"
#include "core/report/report.h"

namespace fusion {
namespace {

enum class Lane : std::uint8_t { compute, send, receive };
constexpr std::array lane_names = {"compute", "send", "receive"};
constexpr std::size_t lane_stride = 1000;  ///< thread ids: 1, 2, … compute; 1001, … send; 2001, … receive

Lane lane_of(TaskKind kind) {
  if (kind == TaskKind::send) return Lane::send;
  return kind == TaskKind::recv ? Lane::receive : Lane::compute;
}

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Microseconds with three decimals, as the format wants them.
void append_us(std::string& text, Seconds time) {
  std::array<char, 64> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), time.value * 1e6, std::chars_format::fixed, 3);
  text.append(buffer.data(), end.ptr);
}

class TimelineWriter {
 public:
  TimelineWriter(const Report& report, const Program& program, const Platform& platform)
      : report_(report), program_(program), platform_(platform), tracks_(program.devices.size()) {
    process_of_.resize(platform.devices.size());
    for (std::size_t d = 0; d < program.devices.size(); ++d) process_of_[program.devices[d].device.index()] = d;
    for (std::size_t t = 0; t < program.tasks.size(); ++t) labels_.push_back(label(TaskId(t)));
  }

  std::string write() && {
    text_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
    for (const std::size_t i : by_start()) write_event(report_.timeline[i]);
    for (std::size_t d = 0; d < tracks_.size(); ++d) write_names(d);
    text_ += "\n]}\n";
    return std::move(text_);
  }

 private:
  std::vector<std::size_t> by_start() const {
    std::vector<std::size_t> order(report_.timeline.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [this](std::size_t i) { return report_.timeline[i].start; });
    return order;
  }

  /// What a task's slices have in common: `"cat":"forward","name":"forward blocks 3-7`, still open for the micro-batch.
  std::string label(TaskId id) const {
    const std::string name = json_string(describe(program_, platform_, id));
    return "\"cat\":" + json_string(name_of(program_.task(id).phase)) + ",\"name\":" + name.substr(0, name.size() - 1);
  }

  /// The first track of its kind on which the slice overlaps no earlier one.
  std::size_t thread_of(std::size_t process, Lane lane, const TimelineEvent& event) {
    std::vector<Seconds>& ends = tracks_[process][static_cast<std::size_t>(lane)];
    const auto free = std::ranges::find_if(ends, [&](Seconds end) { return end <= event.start; });
    const std::size_t track = static_cast<std::size_t>(free - ends.begin());
    if (free == ends.end()) ends.emplace_back();
    ends[track] = event.end;
    return static_cast<std::size_t>(lane) * lane_stride + track + 1;
  }

  void begin(std::string_view kind, std::size_t process, std::size_t thread) {
    text_ += text_.back() == '[' ? "\n{" : ",\n{";
    text_.append("\"ph\":\"").append(kind).append("\",\"pid\":").append(std::to_string(process + 1));
    text_.append(",\"tid\":").append(std::to_string(thread));
  }

  void write_event(const TimelineEvent& event) {
    const Task& task = program_.task(event.task);
    const std::size_t process = process_of_[task.device.index()];
    const std::size_t thread = thread_of(process, lane_of(task.kind), event);
    begin("X", process, thread);
    text_ += ",\"ts\":";
    append_us(text_, event.start);
    text_ += ",\"dur\":";
    append_us(text_, event.end - event.start);
    text_ += ',' + labels_[event.task.index()];
    if (task.per_micro_batch) text_ += " · micro-batch " + std::to_string(event.micro_batch);
    text_ += '"';
    if (lane_of(task.kind) != Lane::compute)
      write_message(task, event, process, thread);
    else
      text_ += '}';
  }

  /// The message's arguments, and its end of the arrow from send to receive.
  void write_message(const Task& task, const TimelineEvent& event, std::size_t process, std::size_t thread) {
    text_ += ",\"args\":{\"bytes\":" + std::to_string(task.bytes.value);
    text_ += ",\"dense_bytes\":" + std::to_string(task.dense_bytes.value);
    text_ += ",\"codec\":" + json_string(to_string(task.codec));
    text_ += ",\"peer\":" + json_string(platform_.device(task.peer).name) + "}}";
    const bool sends = task.kind == TaskKind::send;
    const std::size_t send = sends ? event.task.index() : task.match.index();
    begin(sends ? "s" : "f", process, thread);
    text_ += ",\"ts\":";
    append_us(text_, event.start);
    text_ += sends ? "" : ",\"bp\":\"e\"";
    text_ += ",\"cat\":\"message\",\"name\":\"message\",\"id\":\"" + std::to_string(send) + "." +
             std::to_string(event.micro_batch) + "\"}";
  }

  void write_metadata(std::string_view name, std::size_t process, std::size_t thread, const std::string& arguments) {
    begin("M", process, thread);
    text_.append(",\"name\":\"").append(name).append("\",\"args\":{").append(arguments).append("}}");
  }

  void write_names(std::size_t d) {
    const std::string& device = platform_.device(program_.devices[d].device).name;
    const std::string& stage = report_.devices[d].stage;
    write_metadata("process_name", d, 0, "\"name\":" + json_string(stage.empty() ? device : device + ": " + stage));
    write_metadata("process_sort_index", d, 0, "\"sort_index\":" + std::to_string(d));
    for (std::size_t lane = 0; lane < lane_names.size(); ++lane)
      for (std::size_t track = 0; track < tracks_[d][lane].size(); ++track) {
        const std::size_t thread = lane * lane_stride + track + 1;
        const std::string number = track == 0 ? "" : " " + std::to_string(track + 1);
        write_metadata("thread_name", d, thread, "\"name\":" + json_string(lane_names[lane] + number));
        write_metadata("thread_sort_index", d, thread, "\"sort_index\":" + std::to_string(thread));
      }
  }

  const Report& report_;
  const Program& program_;
  const Platform& platform_;
  std::vector<std::size_t> process_of_;                                      ///< by device of the platform
  std::vector<std::string> labels_;                                          ///< by task
  std::vector<std::array<std::vector<Seconds>, lane_names.size()>> tracks_;  ///< when each is free again
  std::string text_;
};

}  // namespace

std::string write_timeline(const Report& report, const Program& program, const Platform& platform) {
  return TimelineWriter(report, program, platform).write();
}

}  // namespace fusion
