#include "exec/probe.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/platform/measured_pairs.h"
#include "core/platform/names.h"

namespace fusion::exec {
namespace {

using Bytestring = std::vector<std::byte>;

/// Channels of a probe. Messages of one pair and channel are taken in the order they were sent.
enum class Topic : std::uint32_t { ready = 8, go, ask, answer, name, result };
MessageTag tag_of(Topic topic) { return {control_channel + static_cast<std::uint32_t>(topic), 0, 0}; }

class Prober {
 public:
  Prober(Transport& transport, const ProbeOptions& options) : transport_(transport), options_(options) {}

  ProbeResult run() {
    const int num_ranks = transport_.num_ranks();
    ProbeResult result;
    result.names = gather_names();
    for (int from = 0; from < num_ranks; ++from)
      for (int to = 0; to < num_ranks; ++to)
        if (from != to) probe_pair(from, to, result);
    return result;
  }

 private:
  bool is(int rank) const { return transport_.rank() == rank; }
  void send(int to, Topic topic, Bytestring message) { transport_.send(to, tag_of(topic), std::move(message)); }
  Bytestring receive(int from, Topic topic) { return transport_.receive(from, tag_of(topic), "the probe"); }

  std::vector<std::string> gather_names() {
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    std::string name = std::string(host.data()) + "-rank" + std::to_string(transport_.rank());
    if (!is_name(name)) name = "rank" + std::to_string(transport_.rank());
    if (!is(0)) {
      const auto bytes = std::as_bytes(std::span(name));
      send(0, Topic::name, {bytes.begin(), bytes.end()});
      return {};
    }
    std::vector<std::string> names = {name};
    for (int rank = 1; rank < transport_.num_ranks(); ++rank) {
      const Bytestring told = receive(rank, Topic::name);
      names.emplace_back(reinterpret_cast<const char*>(told.data()), told.size());
    }
    return names;
  }

  /// Nobody begins a pair before the one before it has ended: its result goes through rank 0.
  void probe_pair(int from, int to, ProbeResult& result) {
    if (is(from)) {
      if (from != 0) receive(0, Topic::go);
      const ProbedLink link = measure(to);
      const std::array<double, 2> figures = {link.latency.value, link.bandwidth.value};
      if (from == 0) return result.links.push_back({from, to, link.latency, link.bandwidth});
      Bytestring told(sizeof figures);
      std::memcpy(told.data(), figures.data(), told.size());
      return send(0, Topic::result, std::move(told));
    }
    if (is(0)) send(from, Topic::go, {});
    if (is(to)) echo(from);
    if (!is(0)) return;
    const Bytestring told = receive(from, Topic::result);
    std::array<double, 2> figures{};
    check(told.size() == sizeof figures, "a result of the probe is two numbers");
    std::memcpy(figures.data(), told.data(), told.size());
    result.links.push_back({from, to, Seconds(figures[0]), BytesPerSecond(figures[1])});
  }

  /// Answers every message with an empty one, until one says that it is the last.
  void echo(int from) {
    for (bool last = false; !last;) {
      const Bytestring asked = receive(from, Topic::ask);
      last = asked.size() == 1;
      send(from, Topic::answer, {});
    }
  }

  Seconds round_trip(int to, std::int64_t bytes) {
    Bytestring message(static_cast<std::size_t>(bytes));
    const Seconds start = transport_.now();
    send(to, Topic::ask, std::move(message));
    receive(to, Topic::answer);
    return transport_.now() - start;
  }

  ProbedLink measure(int to) {
    constexpr std::int64_t first_bytes = 64 << 10;
    round_trip(to, 0);
    round_trip(to, first_bytes);
    Seconds shortest = round_trip(to, 0);
    for (int i = 1; i < options_.round_trips; ++i) shortest = std::min(shortest, round_trip(to, 0));

    std::int64_t bytes = first_bytes;
    Seconds taken = round_trip(to, bytes);
    while (taken - shortest < options_.long_enough && bytes < options_.largest.value) {
      const double growth = options_.long_enough / std::max(taken - shortest, Seconds(1e-6));
      bytes = std::min(options_.largest.value,
                       static_cast<std::int64_t>(static_cast<double>(bytes) * std::clamp(growth * 1.1, 2.0, 16.0)));
      taken = round_trip(to, bytes);
    }
    std::vector<Seconds> times = {taken};
    for (int i = 1; i < options_.repeats; ++i) times.push_back(round_trip(to, bytes));
    std::ranges::sort(times);
    round_trip(to, 1);  // the last
    const Seconds on_the_link = std::max(times[times.size() / 2] - shortest, Seconds(1e-9));
    return {transport_.rank(), to, shortest / 2, BytesPerSecond(static_cast<double>(bytes) / on_the_link.value)};
  }

  Transport& transport_;
  const ProbeOptions& options_;
};

}  // namespace

ProbeResult probe(Transport& transport, const ProbeOptions& options) { return Prober(transport, options).run(); }

std::string probe_platform(const ProbeResult& result, const ImportOptions& options) {
  std::vector<MeasuredPair> pairs;
  for (const ProbedLink& link : result.links)
    pairs.push_back({result.names[static_cast<std::size_t>(link.from)], result.names[static_cast<std::size_t>(link.to)],
                     link.bandwidth, link.latency, "probe", 0});
  return platform_text(pairs, options);
}

}  // namespace fusion::exec
