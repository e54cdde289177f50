#include "exec/execute_council.h"

namespace fusion::exec {
namespace {

constexpr std::uint32_t first_topic = control_channel + 0x100;  // below: the transports' own

MessageTag tag_of(Topic topic, std::int64_t step) { return {first_topic + static_cast<std::uint32_t>(topic), 0, step}; }

}  // namespace

std::vector<Bytestring> Council::gather(Topic topic, std::int64_t step, Bytestring mine,
                                        const std::string& waiting_for) {
  if (transport_.rank() != 0) {
    transport_.send(0, tag_of(topic, step), std::move(mine));
    return {};
  }
  std::vector<Bytestring> all{std::move(mine)};
  for (int rank = 1; rank < transport_.num_ranks(); ++rank)
    all.push_back(transport_.receive(rank, tag_of(topic, step), waiting_for));
  return all;
}

Bytestring Council::tell(Topic topic, std::int64_t step, Bytestring from_rank_0, const std::string& waiting_for) {
  if (transport_.rank() != 0) return transport_.receive(0, tag_of(topic, step), waiting_for);
  for (int rank = 1; rank < transport_.num_ranks(); ++rank)
    transport_.send(rank, tag_of(topic, step), Bytestring(from_rank_0));
  return from_rank_0;
}

void Council::barrier(Topic arrive, Topic leave, std::int64_t step, const std::string& waiting_for) {
  gather(arrive, step, {}, waiting_for);
  tell(leave, step, {}, waiting_for);
}

}  // namespace fusion::exec
