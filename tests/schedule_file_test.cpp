// schedule.json: written and read back, and refused wherever it is not what it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/plan/plan.h"
#include "tests/support/plan_cases.h"
#include "tests/support/temporary_folder.h"

namespace fusion {
namespace {

using nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;

class ScheduleFileTest : public testing::Test {
 protected:
  ScheduleFileTest() {
    config.model = "mlp";
    config.platform = "lan4";
    config.policy = "equal-number";
    config.compress = "adatopk:30";
    config.micro_batches = 5;
    problem = load_problem(config);
    schedule = make_schedule(config, problem);
    text = write_schedule(schedule, problem.graph, problem.platform);
  }

  Schedule read(const std::string& content) {
    const auto path = folder.path() / "plan.json";
    std::ofstream(path, std::ios::binary) << content;
    return load_plan(path.string()).schedule;
  }
  std::string fault(const std::string& content) {
    try {
      read(content);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }
  /// The fault of the file after one change.
  template <class Change>
  std::string fault_after(Change change) {
    ordered_json root = ordered_json::parse(text);
    change(root);
    return fault(root.dump());
  }

  TemporaryFolder folder;
  RunConfig config;
  Problem problem;
  Schedule schedule;
  std::string text;
};

TEST_F(ScheduleFileTest, IsReadBackAsItWas) {
  EXPECT_EQ(read(text), schedule);
  EXPECT_EQ(write_schedule(read(text), problem.graph, problem.platform), text);
}

TEST_F(ScheduleFileTest, HoldsEveryPartOfTheRequest) {
  config.model = "gpt2";
  config.policy = "random";
  config.order = "gpipe";
  config.compress = "int8";
  config.model_options = {.micro_batch = 2, .sequence_length = 64};
  config.devices = 3;
  config.training = {.optimizer = Optimizer::sgd, .precision = Precision::bf16, .recompute = true};
  config.seed = 99;
  problem = load_problem(config);
  schedule = make_schedule(config, problem);
  EXPECT_EQ(read(write_schedule(schedule, problem.graph, problem.platform)), schedule);
  EXPECT_EQ(schedule.stages.size(), 3u);
}

TEST_F(ScheduleFileTest, AStageAndAnEdgeAreALineEach) {
  const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n'));
  EXPECT_EQ(lines, schedule.stages.size() + schedule.edges.size() + 2 /* braces */ + 16 /* keys */ + 2 /* brackets */);
}

TEST_F(ScheduleFileTest, EveryKeyIsNeededAndNoOtherIsTaken) {
  const ordered_json root = ordered_json::parse(text);
  const std::vector<nlohmann::json::json_pointer> objects = {
      nlohmann::json::json_pointer(""), nlohmann::json::json_pointer("/model_options"),
      nlohmann::json::json_pointer("/training"), nlohmann::json::json_pointer("/stages/1"),
      nlohmann::json::json_pointer("/edges/0")};
  for (const auto& pointer : objects)
    for (const auto& [key, value] : root.at(pointer).items()) {
      const auto without = fault_after([&](ordered_json& j) { j.at(pointer).erase(key); });
      EXPECT_THAT(without, HasSubstr("plan.json")) << key;
      EXPECT_THAT(without, HasSubstr(key + ": is missing")) << key;
      for (const ordered_json& wrong : {ordered_json(nullptr), ordered_json(ordered_json::array({1.5}))}) {
        const auto mistyped = fault_after([&](ordered_json& j) { j.at(pointer)[key] = wrong; });
        EXPECT_THAT(mistyped, HasSubstr(key)) << key;
      }
      const auto unknown = fault_after([&](ordered_json& j) { j.at(pointer)[key + "x"] = 1; });
      EXPECT_THAT(unknown, HasSubstr("\"" + key + "x\" is not known")) << key;
      EXPECT_THAT(unknown, HasSubstr("\"" + key + "\"")) << key;
    }
}

TEST_F(ScheduleFileTest, NamesThatDoNotExist) {
  const auto set = [](const char* pointer, const ordered_json& value) {
    return [=](ordered_json& j) { j.at(nlohmann::json::json_pointer(pointer)) = value; };
  };
  EXPECT_THAT(fault_after(set("/policy", "op-fense")), HasSubstr("policy: \"op-fense\" is not known"));
  EXPECT_THAT(fault_after(set("/order", "1f1c")), HasSubstr("did you mean \"1f1b\""));
  EXPECT_THAT(fault_after(set("/compress", "adatop:3")), HasSubstr("did you mean \"adatopk\""));
  EXPECT_THAT(fault_after(set("/model", "gtp2")), HasSubstr("gpt2"));
  EXPECT_THAT(fault_after(set("/platform", "lan5")), HasSubstr("lan4"));
  EXPECT_THAT(fault_after(set("/training/optimizer", "adm")), HasSubstr("did you mean \"adam\""));
  EXPECT_THAT(fault_after(set("/stages/0/device", "nobody")), HasSubstr("stages[0].device: \"nobody\" is not known"));
  EXPECT_THAT(fault_after(set("/stages/0/ops", {"nothing..never"})), HasSubstr("stages[0].ops"));
  EXPECT_THAT(fault_after(set("/stages/0/name", "blocks 7-9")), HasSubstr("stages[0].name"));
  EXPECT_THAT(fault_after(set("/edges/0/tensor", "nothing")), HasSubstr("edges[0].tensor: \"nothing\" is not known"));
  EXPECT_THAT(fault_after(set("/edges/0/activation", "topk")), HasSubstr("edges[0].activation: \"topk\" has no ratio"));
}

TEST_F(ScheduleFileTest, NumbersOutOfRange) {
  const auto set = [](const char* pointer, const ordered_json& value) {
    return [=](ordered_json& j) { j.at(nlohmann::json::json_pointer(pointer)) = value; };
  };
  for (const char* pointer : {"/micro_batches", "/model_options/micro_batch"})
    for (const ordered_json& value : {ordered_json(0), ordered_json(-1), ordered_json(1.5), ordered_json(1e30)})
      EXPECT_NE(fault_after(set(pointer, value)), "") << pointer << value;
  EXPECT_NE(fault_after(set("/seed", -1)), "");
  EXPECT_NE(fault_after(set("/stages/0/replica", 1)), "");
  EXPECT_NE(fault_after(set("/edges/0/from", 99)), "");
  EXPECT_NE(fault_after(set("/edges/0/from", -1)), "");
  EXPECT_NE(fault_after(set("/predicted_iteration_s", -1)), "");
}

TEST_F(ScheduleFileTest, PlacementsThatAreWrong) {
  EXPECT_NE(fault_after([](ordered_json& j) { j["stages"].erase(0); }), "");
  EXPECT_NE(fault_after([](ordered_json& j) { std::swap(j["stages"][0], j["stages"][1]); }), "");
  EXPECT_NE(fault_after([](ordered_json& j) { j["stages"][0]["device"] = j["stages"][1]["device"]; }), "");
  EXPECT_THAT(fault_after([](ordered_json& j) { j["stages"][0]["ops"] = ordered_json::array(); }),
              HasSubstr("stages[0].ops: there are none"));
  EXPECT_NE(fault_after([](ordered_json& j) { j["edges"].erase(0); }), "");
  EXPECT_NE(fault_after([](ordered_json& j) { j["edges"].push_back(j["edges"][0]); }), "");
  EXPECT_THAT(fault_after([](ordered_json& j) { j["stages"] = ordered_json::array(); }), HasSubstr("stages"));
}

TEST_F(ScheduleFileTest, WrongNamesOfModelAndPlatformNameTheScheduleToo) {
  for (const char* key : {"model", "platform"})
    EXPECT_THAT(fault_after([&](ordered_json& j) { j[key] = "no such"; }),
                AllOf(HasSubstr("plan.json"), HasSubstr(key), HasSubstr("\"no such\"")));
}

TEST_F(ScheduleFileTest, FilesThatAreNone) {
  EXPECT_NE(fault(""), "");
  EXPECT_NE(fault("[]"), "");
  EXPECT_NE(fault("{}"), "");
  EXPECT_NE(fault(std::string("\0\1\2\xff\xfe", 5)), "");
  EXPECT_NE(fault("\xff\xfe{}"), "");
  EXPECT_NE(fault(text + "}"), "");
  EXPECT_NE(fault("{\"micro_batches\": 1e999}"), "");
  for (std::size_t length = 1; length + 2 < text.size(); length += 37)
    EXPECT_THAT(fault(text.substr(0, length)), HasSubstr("plan.json")) << length;
  EXPECT_THROW(load_plan((folder.path() / "absent.json").string()), InputError);
  EXPECT_THROW(load_plan(folder.path().string()), InputError);
}

// Dots in names: "a..b" is an op of its own, so the range from a to b is written op by op.
TEST(ScheduleFile, RangesAreNeverMistakenForNames) {
  TemporaryFolder folder;
  GraphBuilder net("dots", 1);
  TensorId x = net.input("x", {1, 4});
  for (const char* name : {"a", "b", "c", "a..b", "a..", "..b"}) x = net.linear(name, x, 4);
  const Graph graph = std::move(net).finish();
  const auto model = folder.path() / "dots.toml";
  std::ofstream(model) << write_graph(graph);

  RunConfig config;
  config.model = model.string();
  config.platform = "lan4";
  const Problem problem = load_problem(config);
  ASSERT_EQ(problem.graph.ops.size(), 7u);
  const std::size_t n = 7;
  for (std::size_t first = 1; first < n; ++first)
    for (std::size_t second = first + 1; second < n; ++second) {
      Schedule schedule =
          schedule_of(problem.graph, {stage_of(0, 0, first), stage_of(1, first, second), stage_of(2, second, n)});
      schedule.model = config.model;
      schedule.platform = config.platform;
      const auto path = (folder.path() / "plan.json").string();
      std::ofstream(path) << write_schedule(schedule, problem.graph, problem.platform);
      EXPECT_EQ(load_plan(path).schedule.stages, schedule.stages) << first << " " << second;
    }
}

}  // namespace
}  // namespace fusion
