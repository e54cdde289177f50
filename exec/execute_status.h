// What a rank tells rank 0 at the end of each step, and what rank 0 makes of it.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/execute.h"
#include "exec/execute_walk.h"

namespace fusion::exec {

struct RankStatus {
  bool stop = false;  ///< this rank was asked to end
  double loss = 0;    ///< of the rank that has the loss, else 0
  WalkTimes times;
  std::vector<ChannelUse> channels;   ///< that end here
  std::vector<TimelineEvent> events;  ///< messages that ended here: task is their recv; empty unless asked for
};

/// Sorts the messages of one step by where they came from.
void add_transfers(RankStatus&, const std::vector<Transfer>&, int rank, std::int64_t step, bool timeline);

Bytestring to_bytes(const RankStatus&);
/// Throws RuntimeFault for bytes that are no status.
RankStatus status_of(const Bytestring&);

/// Means over steps, in the shape of a report.
class Meter {
 public:
  explicit Meter(const Program&);
  /// The first step warms up and is dropped once another one follows. `started`: by the clock of the transports.
  void add(const StepSummary&, const std::vector<RankStatus>&, Seconds started);
  Measured measured() const;
  std::vector<ChannelUse> channels() const;  ///< by channels(program)

 private:
  const Program* program_;
  std::size_t steps_ = 0;
  bool warm_ = false;
  Measured sum_;
  std::vector<ChannelUse> channels_;
};

}  // namespace fusion::exec
