// Chrome traces: JSON that a viewer takes, tracks without overlaps, names and arguments that say what happened.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "bench/synthetic.h"
#include "core/report/report.h"

namespace fusion {
namespace {

using Json = nlohmann::json;

/// Two devices, two micro-batches; the two activations overlap on their way (latency 3 s).
struct Case {
  Platform platform = make_platform({.num_devices = 2});
  Program program = make_pipeline(platform, {.micro_batches = 2, .message = Bytes(1000)});
  Report report;

  Case() {
    program.stage_names = {"blocks 0-2", "blocks \"3-7\""};
    program.tasks[4].payload.name = program.tasks[5].payload.name = "h.2.add";
    program.tasks[4].codec = {CodecKind::topk, 100};
    const auto event = [](std::size_t task, std::uint32_t micro_batch, double start, double end) {
      return TimelineEvent{TaskId(task), micro_batch, Seconds(start), Seconds(end)};
    };
    // Tasks: 0, 1 forward and backward of stage 0; 2, 3 of stage 1; 4, 5 send and recv of the activation.
    Measured measured{Seconds(20), std::vector(2, Seconds(1)), std::vector(2, Seconds(1)), {}, {}};
    measured.timeline = {event(0, 0, 0, 1), event(0, 1, 1, 2), event(4, 0, 1, 5),  event(5, 0, 1, 5),
                         event(4, 1, 2, 6), event(5, 1, 2, 6), event(2, 0, 5, 6.5)};
    report = make_report(program, platform, "simgrid", "ideal", measured);
  }

  std::vector<Json> events(const std::string& kind) const {
    std::vector<Json> list;
    const Json trace = Json::parse(write_timeline(report, program, platform));
    for (const Json& event : trace.at("traceEvents"))
      if (event.at("ph") == kind) list.push_back(event);
    return list;
  }
};

TEST(Timeline, SlicesSayWhatAndWhen) {
  const std::vector<Json> slices = Case().events("X");
  ASSERT_EQ(slices.size(), 7u);
  EXPECT_EQ(slices[0].at("name"), "forward blocks 0-2 · micro-batch 0");
  EXPECT_EQ(slices[0].at("ts"), 0);
  EXPECT_EQ(slices[0].at("dur"), 1e6);  // microseconds
  EXPECT_EQ(slices[0].at("cat"), "forward");
  EXPECT_EQ(slices[6].at("name"), "forward blocks \"3-7\" · micro-batch 0");
  EXPECT_EQ(slices[6].at("ts"), 5e6);
  EXPECT_EQ(slices[6].at("dur"), 1.5e6);
}

TEST(Timeline, MessagesCarryBytesCodecAndPeer) {
  for (const Json& slice : Case().events("X")) {
    if (slice.at("name") != "send activation h.2.add to d1 · micro-batch 0") continue;
    EXPECT_EQ(slice.at("args"), Json({{"bytes", 1000}, {"dense_bytes", 1000}, {"codec", "topk:100"}, {"peer", "d1"}}));
    return;
  }
  FAIL() << "no such send";
}

TEST(Timeline, ProcessesAndThreadsAreNamed) {
  std::map<std::string, std::string> names;
  for (const Json& event : Case().events("M")) {
    const std::string place = event.at("pid").dump() + "." + event.at("tid").dump();
    if (event.at("name") == "process_name") names[event.at("pid").dump()] = event.at("args").at("name");
    if (event.at("name") == "thread_name") names[place] = event.at("args").at("name");
  }
  EXPECT_EQ(names.at("1"), "d0: blocks 0-2");
  EXPECT_EQ(names.at("1.1"), "compute");
  EXPECT_EQ(names.at("1.1001"), "send");
  EXPECT_EQ(names.at("1.1002"), "send 2");  // the second message leaves while the first still travels
  EXPECT_EQ(names.at("2.2001"), "receive");
}

TEST(Timeline, SlicesOfOneTrackNeverOverlap) {
  std::map<std::pair<int, int>, double> end;
  for (const Json& slice : Case().events("X")) {
    double& last = end[{slice.at("pid"), slice.at("tid")}];
    EXPECT_GE(slice.at("ts").get<double>(), last);
    last = slice.at("ts").get<double>() + slice.at("dur").get<double>();
  }
}

TEST(Timeline, EveryArrowHasBothEnds) {
  std::map<std::string, int> ends;
  for (const Json& event : Case().events("s")) ends[event.at("id")] += 1;
  for (const Json& event : Case().events("f")) ends[event.at("id")] += 10;
  EXPECT_EQ(ends.size(), 2u);
  for (const auto& [id, count] : ends) EXPECT_EQ(count, 11) << id;
}

TEST(Timeline, EmptyOneIsStillATrace) {
  Case test;
  test.report.timeline.clear();
  EXPECT_TRUE(test.events("X").empty());
  EXPECT_FALSE(test.events("M").empty());
}

}  // namespace
}  // namespace fusion
