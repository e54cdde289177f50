#include "exec/execute_status.h"

#include <algorithm>
#include <array>

#include "core/compress/payload.h"

namespace fusion::exec {
namespace {

using compress::append;
using compress::PayloadReader;

constexpr std::array kind_names = {"forward", "backward", "exchange", "update", "codec"};

/// A TimelineEvent as it travels.
struct Event {
  std::uint32_t task, micro_batch;
  double start_s, end_s;
};

void append_events(Bytestring& out, const std::vector<TimelineEvent>& events) {
  append(out, static_cast<std::uint64_t>(events.size()));
  for (const TimelineEvent& event : events)
    append(out, Event{event.task.value, event.micro_batch, event.start.value, event.end.value});
}

std::vector<TimelineEvent> read_events(PayloadReader& in) {
  std::vector<TimelineEvent> events;
  for (auto left = in.one<std::uint64_t>(); left > 0; --left) {
    const auto event = in.one<Event>();
    events.push_back({TaskId(event.task), event.micro_batch, Seconds(event.start_s), Seconds(event.end_s)});
  }
  return events;
}

/// Length of the union of intervals.
Seconds covered(std::vector<std::pair<Seconds, Seconds>> intervals) {
  std::ranges::sort(intervals);
  Seconds sum{}, end{-1e300};
  for (const auto& [from, to] : intervals) {
    if (to > end) sum += to - std::max(from, end);
    end = std::max(end, to);
  }
  return sum;
}

void add_kinds(std::vector<KindReport>& sum, const std::map<std::string, KindReport>& more) {
  for (const char* name : kind_names) {
    const auto found = more.find(name);
    if (found == more.end()) continue;
    auto kind = std::ranges::find(sum, name, &KindReport::name);
    if (kind == sum.end()) kind = sum.insert(sum.end(), {name, 0, {}});
    kind->count += found->second.count;
    kind->total += found->second.total;
  }
}

}  // namespace

void add_transfers(RankStatus& status, const std::vector<Transfer>& transfers, int rank, std::int64_t step,
                   bool timeline) {
  std::map<int, std::vector<std::pair<Seconds, Seconds>>> intervals;
  std::map<int, ChannelUse> channels;
  for (const Transfer& transfer : transfers) {
    if (transfer.to != rank || transfer.tag.step != step || transfer.tag.channel >= control_channel) continue;
    ChannelUse& use = channels[transfer.from];
    use.bytes += transfer.bytes;
    ++use.messages;
    intervals[transfer.from].emplace_back(transfer.start, transfer.end);
    if (timeline)
      status.events.push_back({TaskId(transfer.tag.channel), transfer.tag.micro_batch, transfer.start, transfer.end});
  }
  for (auto& [from, use] : channels) {
    use.from = from;
    use.to = rank;
    use.busy = covered(std::move(intervals[from]));
    status.channels.push_back(use);
  }
}

Bytestring to_bytes(const RankStatus& status) {
  Bytestring out;
  append(out, static_cast<std::uint8_t>(status.stop));
  append(out, status.loss);
  append(out, status.times.busy);
  append(out, status.times.longest);
  for (const char* name : kind_names) {
    const auto found = status.times.kinds.find(name);
    append(out, static_cast<std::uint64_t>(found == status.times.kinds.end() ? 0 : found->second.count));
    append(out, found == status.times.kinds.end() ? Seconds{} : found->second.total);
  }
  append(out, static_cast<std::uint64_t>(status.channels.size()));
  for (const ChannelUse& use : status.channels) append(out, use);
  append_events(out, status.times.events);
  append_events(out, status.events);
  return out;
}

RankStatus status_of(const Bytestring& bytes) {
  PayloadReader in(bytes);
  RankStatus status;
  status.stop = in.one<std::uint8_t>() != 0;
  status.loss = in.one<double>();
  status.times.busy = in.one<Seconds>();
  status.times.longest = in.one<Seconds>();
  for (const char* name : kind_names) {
    const auto count = static_cast<std::size_t>(in.one<std::uint64_t>());
    const auto total = in.one<Seconds>();
    if (count > 0) status.times.kinds[name] = {name, count, total};
  }
  for (auto left = in.one<std::uint64_t>(); left > 0; --left) status.channels.push_back(in.one<ChannelUse>());
  status.times.events = read_events(in);
  status.events = read_events(in);
  in.finish();
  return status;
}

Meter::Meter(const Program& program) : program_(&program) {
  sum_.device_busy.resize(program.devices.size());
  std::map<DeviceId, int> rank_of;
  for (std::size_t d = 0; d < program.devices.size(); ++d) rank_of[program.devices[d].device] = static_cast<int>(d);
  for (const Channel& channel : fusion::channels(program))
    channels_.push_back({rank_of.at(channel.from), rank_of.at(channel.to), {}, {}, 0});
  sum_.channel_busy.resize(channels_.size());
}

void Meter::add(const StepSummary& summary, const std::vector<RankStatus>& statuses, Seconds started) {
  if (steps_ == 1 && !warm_) *this = Meter(*program_), warm_ = true;
  ++steps_;
  sum_.iteration += summary.iteration;
  for (std::size_t rank = 0; rank < statuses.size(); ++rank) {
    const RankStatus& status = statuses[rank];
    sum_.device_busy[rank] += status.times.busy;
    add_kinds(sum_.task_kinds, status.times.kinds);
    for (const ChannelUse& use : status.channels)
      for (std::size_t c = 0; c < channels_.size(); ++c) {
        if (channels_[c].from != use.from || channels_[c].to != use.to) continue;
        sum_.channel_busy[c] += use.busy;
        channels_[c].bytes += use.bytes;
        channels_[c].busy += use.busy;
        channels_[c].messages += use.messages;
      }
    for (const TimelineEvent& event : status.times.events)
      sum_.timeline.push_back({event.task, event.micro_batch, event.start - started, event.end - started});
    for (const TimelineEvent& event : status.events)
      for (const TaskId task : {program_->task(event.task).match, event.task})
        sum_.timeline.push_back({task, event.micro_batch, event.start - started, event.end - started});
  }
}

Measured Meter::measured() const {
  Measured mean = sum_;
  const double n = static_cast<double>(std::max<std::size_t>(steps_, 1));
  mean.iteration = mean.iteration / n;
  for (Seconds& busy : mean.device_busy) busy = busy / n;
  for (Seconds& busy : mean.channel_busy) busy = busy / n;
  for (KindReport& kind : mean.task_kinds) {
    kind.count /= std::max<std::size_t>(steps_, 1);
    kind.total = kind.total / n;
  }
  return mean;
}

std::vector<ChannelUse> Meter::channels() const {
  std::vector<ChannelUse> mean = channels_;
  const auto n = static_cast<std::int64_t>(std::max<std::size_t>(steps_, 1));
  for (ChannelUse& use : mean) {
    use.bytes = Bytes(use.bytes.value / n);
    use.busy = use.busy / static_cast<double>(n);
    use.messages /= static_cast<std::size_t>(n);
  }
  return mean;
}

}  // namespace fusion::exec
