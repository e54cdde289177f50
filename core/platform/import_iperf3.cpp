#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>

#include "core/base/error.h"
#include "core/base/json_file.h"
#include "core/platform/import_export.h"
#include "core/platform/measured_pairs.h"

namespace fusion {
namespace {

/// One result: the pair, with its latency where the sender's kernel told its round-trip time.
struct Result {
  MeasuredPair pair;
  std::optional<Seconds> round_trip;
};

/// The least round-trip time of a stream, in seconds; the mean where this iperf3 gives no minimum. The mean is taken
/// while the test itself fills the queues, so it is above the latency of the path.
std::optional<double> round_trip_us(const JsonObject& stream) {
  if (!stream.has("sender")) return {};
  const JsonObject sender = stream.object("sender");
  for (const char* key : {"min_rtt", "mean_rtt"})
    if (sender.has(key) && sender.real(key) > 0) return sender.real(key);  // 0: not known to this sender
  return {};
}

std::optional<Seconds> least_round_trip(const JsonObject& end) {
  double least_us = std::numeric_limits<double>::infinity();
  for (const auto& stream : end.objects("streams"))
    if (const auto us = round_trip_us(stream)) least_us = std::min(least_us, *us);
  if (least_us == std::numeric_limits<double>::infinity()) return {};
  try {
    return to_seconds(least_us, "us");
  } catch (const std::invalid_argument& reason) {
    throw end.error("streams", reason.what());
  }
}

BytesPerSecond received_bandwidth(const JsonObject& end) {
  const JsonObject sum = end.object("sum_received");
  try {
    return to_bandwidth(sum.real("bits_per_second"), "bps");
  } catch (const std::invalid_argument& reason) {
    throw sum.error("bits_per_second", reason.what());
  }
}

/// Data flows from the client to the server, or back where the test ran with --reverse.
Result read_result(const std::filesystem::path& path) {
  const JsonObject root = load_json(path);
  if (root.has("error")) throw root.error("error", "the test failed: " + in_quotes(root.string("error")));
  const JsonObject start = root.object("start"), end = root.object("end");
  const auto connections = start.objects("connected");
  if (connections.empty()) throw start.error("connected", "is empty; the test had no connection");
  const JsonObject test = start.object("test_start");
  if (test.integer("bidir", 0, 1, 0) == 1)
    throw test.error("bidir", "a test of both directions at once measures neither; run one without --bidir for each");
  if (const std::string protocol = test.string("protocol", "TCP"); protocol != "TCP")
    throw test.error("protocol", in_quotes(protocol) + " sends at a rate it was told; run the TCP test");
  Result result;
  result.pair = {connections[0].string("local_host"),
                 connections[0].string("remote_host"),
                 received_bandwidth(end),
                 {},
                 path.string(),
                 0};
  if (test.integer("reverse", 0, 1, 0) == 1) std::swap(result.pair.from, result.pair.to);
  result.round_trip = least_round_trip(end);
  return result;
}

/// A round trip is the same from both ends, so a result without one takes that of the opposite direction.
Seconds latency_of(const Result& result, const std::vector<Result>& all) {
  if (result.round_trip) return *result.round_trip / 2;
  for (const Result& other : all)
    if (other.round_trip && other.pair.from == result.pair.to && other.pair.to == result.pair.from)
      return *other.round_trip / 2;
  throw InputError(result.pair.file, "end.streams",
                   "no round-trip time, here or in the opposite direction; run the TCP test from a Linux sender");
}

}  // namespace

std::string import_iperf3(const std::vector<std::filesystem::path>& paths, const ImportOptions& options) {
  if (paths.empty()) throw InputError("", "iperf3", "no result given");
  std::vector<Result> results;
  for (const auto& path : paths) results.push_back(read_result(path));
  std::vector<MeasuredPair> pairs;
  for (const Result& result : results) {
    pairs.push_back(result.pair);
    pairs.back().latency = latency_of(result, results);
  }
  return platform_text(pairs, options);
}

}  // namespace fusion
