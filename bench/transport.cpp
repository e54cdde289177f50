// fusion-bench-transport: what a shaped link between MPI ranks gives, against what it should. Its own program, since it
// runs under mpirun; rank 0 sends to one rank after the other, each over a link of its own.
//   mpirun -np 5 … fusion-bench-transport
#include <array>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <thread>

#include "core/base/error.h"
#include "exec/transport_mpi.h"

namespace fusion::exec {
namespace {

/// Link k is the one from rank 0 to rank k.
constexpr std::array rates = {"8 Mbps", "100 Mbps", "1 Gbps", "10 Gbps"};
constexpr Seconds latency{0.01};
constexpr std::uint32_t first_channel = 0;

LinkShapes shapes() {
  LinkShapes all(rates.size() + 1, std::vector<std::optional<LinkShape>>(rates.size() + 1));
  for (std::size_t k = 0; k < rates.size(); ++k) all[0][k + 1] = LinkShape{parse_bandwidth(rates[k]), latency};
  return all;
}

/// Rank 0 keeps its core busy, as a stage that computes does, until the receiver says how long its message took.
double compute_while_sending(Transport& t, int to, Bytes bytes) {
  t.send(to, {first_channel, 0, 0}, std::vector<std::byte>(static_cast<std::size_t>(bytes.value)));
  const Seconds ideal = bytes / parse_bandwidth(rates[static_cast<std::size_t>(to - 1)]) + latency;
  volatile double work = 1;
  for (const Seconds until = t.now() + ideal * 1.2; t.now() < until;)
    for (int i = 0; i < 1000; ++i) work = work * 1.0000001;
  const auto told = t.receive(to, {first_channel, 1, 0}, "the time of a message");
  double taken_s = 0;
  std::memcpy(&taken_s, told.data(), sizeof taken_s);
  return taken_s / ideal.value;
}

/// From the first byte on the link until the last message is here.
void receive_and_tell(Transport& t, int messages) {
  for (int i = 0; i < messages; ++i) t.receive(0, {first_channel, 0, i}, "a message");
  const auto transfers = t.take_transfers();
  const double taken_s = (transfers.back().end - transfers.front().start).value;
  std::vector<std::byte> told(sizeof taken_s);
  std::memcpy(told.data(), &taken_s, sizeof taken_s);
  t.send(0, {first_channel, 1, 0}, told);
}

/// Share of the link's rate that ten messages of `bytes` together get, their last one's latency counted too.
double goodput(Transport& t, int to, Bytes bytes, int messages) {
  for (int i = 0; i < messages; ++i)
    t.send(to, {first_channel, 0, i}, std::vector<std::byte>(static_cast<std::size_t>(bytes.value)));
  const auto told = t.receive(to, {first_channel, 1, 0}, "the time of some messages");
  double taken_s = 0;
  std::memcpy(&taken_s, told.data(), sizeof taken_s);
  return (bytes * messages / parse_bandwidth(rates[static_cast<std::size_t>(to - 1)])).value / taken_s;
}

constexpr int num_messages = 10;
/// Enough for half a second of the link, at most 16 MB each.
Bytes message_bytes(int to) {
  const double rate = parse_bandwidth(rates[static_cast<std::size_t>(to - 1)]).value;
  return Bytes(static_cast<std::int64_t>(std::min(rate * 0.5 / num_messages, 16e6)));
}

void run(Transport& t) {
  constexpr Bytes large{6'000'000};
  constexpr int overlap_rank = 2;  // 100 Mbps
  if (t.num_ranks() != static_cast<int>(rates.size()) + 1)
    throw InputError("", "ranks", "start " + std::to_string(rates.size() + 1) + " (mpirun -np 5)");
  if (t.rank() == 0) {
    const double ratio = compute_while_sending(t, overlap_rank, large);
    std::printf("6 MB over %s and %s, while the sender computes: %.3f of the ideal time\n", rates[overlap_rank - 1],
                format(latency).c_str(), ratio);
    for (int to = 1; to < t.num_ranks(); ++to)
      std::printf("goodput on %-8s  %d messages of %-7s  %.1f %% of the rate, latency included\n",
                  rates[static_cast<std::size_t>(to - 1)], num_messages, format(message_bytes(to)).c_str(),
                  100 * goodput(t, to, message_bytes(to), num_messages));
    return;
  }
  if (t.rank() == overlap_rank) receive_and_tell(t, 1);
  receive_and_tell(t, num_messages);
}

}  // namespace
}  // namespace fusion::exec

int main() {
  using namespace fusion;
  try {
    const auto transport = exec::make_mpi_transport({.shapes = exec::shapes()});
    exec::run(*transport);
    return 0;
  } catch (const InputError& error) {
    std::cerr << "fusion-bench-transport: " << error.what() << "\n";
    return static_cast<int>(ExitCode::bad_input);
  } catch (const std::exception& error) {
    std::cerr << "fusion-bench-transport: " << error.what() << "\n";
    return static_cast<int>(ExitCode::runtime_fault);
  }
}
