#include "exec/execute_council.h"

#include "core/compress/payload.h"

namespace fusion::exec {
namespace {

constexpr std::uint32_t first_topic = control_channel + 0x100;  // below: the transports' own

MessageTag tag_of(Topic topic, std::int64_t step, std::uint32_t round = 0) {
  return {first_topic + static_cast<std::uint32_t>(topic), round, step};
}

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

Seconds Council::clock_offset() {
  constexpr std::uint32_t rounds = 3;  // the first one warms the connection up
  const std::string waiting_for = "the clocks of the ranks";
  Seconds best{1e9}, offset{};
  for (std::uint32_t round = 0; round < 2 * rounds; round += 2) {
    const MessageTag question = tag_of(Topic::clock, 0, round), answer = tag_of(Topic::clock, 0, round + 1);
    if (transport_.rank() == 0) {
      for (int rank = 1; rank < transport_.num_ranks(); ++rank) {
        transport_.receive(rank, question, waiting_for);
        Bytestring now;
        compress::append(now, transport_.now().value);
        transport_.send(rank, answer, std::move(now));
      }
      continue;
    }
    const Seconds asked = transport_.now();
    transport_.send(0, question, {});
    const Bytestring reply = transport_.receive(0, answer, waiting_for);
    const Seconds heard = transport_.now();
    if (heard - asked >= best) continue;
    best = heard - asked;
    offset = Seconds(compress::PayloadReader(reply).one<double>()) - (asked + heard) / 2;
  }
  return offset;
}

}  // namespace fusion::exec
