// The page of `fusion-sim report`: its data are the results', it is one file that asks nothing of a network, and no
// name in it can become markup. What it looks like, page_test.py sees in a browser.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/plan/plan.h"
#include "core/program/lower.h"
#include "sim/engines.h"
#include "sim/page.h"
#include "sim/page_files.h"
#include "tests/support/temporary_folder.h"

namespace fusion::sim {
namespace {

using Json = nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A report that is right, with this device and this time.
Report report_of(const std::string& device) {
  Report report;
  report.engine = "simgrid";
  report.network_profile = "ideal";
  report.version = "0.1.0";
  report.info.model = "mlp";
  report.info.platform = "lan4";
  report.info.micro_batches = 2;
  report.iteration = Seconds(0.25);
  report.devices = {{device, "all", Seconds(0.2), 0.2, Bytes(10), Bytes(100)}};
  return report;
}

class Page : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = (folder_.path() / name).string();
    write_text(path, text);
    return path;
  }
  /// mlp on lan4, one stage per device.
  std::string schedule() const {
    RunConfig config;
    config.model = "mlp";
    config.platform = "lan4";
    config.policy = "equal-number";
    config.compress = "int8";
    const Problem problem = load_problem(config);
    return write("schedule.json", write_schedule(make_schedule(config, problem), problem.graph, problem.platform));
  }
  static Json data(const std::vector<std::string>& results) { return page_data({.results = results, .platforms = {}}); }
  TemporaryFolder folder_;
};

void expect_refused(const std::string& path, const testing::Matcher<const std::string&>& says) {
  EXPECT_THAT([&] { page_data({.results = {path}, .platforms = {}}); }, ThrowsMessage<InputError>(says)) << path;
}

/// What a browser reads from the page's data element.
Json data_in(const std::string& html) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = html.find(open) + open.size();
  return Json::parse(html.substr(begin, html.find("</script", begin) - begin));
}

TEST_F(Page, HoldsReportsAsTheyAre) {
  const std::string text = write_report(report_of("gpu"));
  const Json page = data_in(page_html(data({write("report.json", text)})));
  ASSERT_EQ(page["runs"].size(), 1u);
  EXPECT_EQ(page["runs"][0]["report"], Json::parse(text));
}

TEST_F(Page, ReplaysASchedule) {
  const Json page = data({schedule()});
  const Json &report = page["runs"][0]["report"], &timeline = page["timelines"][0], &events = timeline["events"];
  const std::size_t num_devices = report["devices"].size();
  std::size_t messages = 0, transfers = 0;
  for (const Json& link : report["links"]) messages += link["messages"].get<std::size_t>();
  double end = 0;
  for (std::size_t i = 0; i < events["lane"].size(); ++i) {
    const bool is_transfer = timeline["kinds"][events["kind"][i].get<std::size_t>()] == "transfer";
    EXPECT_EQ(timeline["lanes"][events["lane"][i].get<std::size_t>()]["link"].get<bool>(), is_transfer);
    transfers += is_transfer ? 1 : 0;
    end = std::max(end, events["start"][i].get<double>() + events["length"][i].get<double>());
  }
  EXPECT_EQ(transfers, messages);  // one bar each, not one per end
  EXPECT_EQ(timeline["lanes"].size(), num_devices + report["links"].size());
  // Two ticks: of the rounded start, and of the rounded length.
  EXPECT_NEAR(end * timeline["tick_s"].get<double>(), report["iteration_s"], 2 * timeline["tick_s"].get<double>());
  EXPECT_EQ(page["platforms"][0]["name"], "lan4");
}

// The trace that simulate --timeline writes gives the same bars as the schedule it came from, but for the codecs' part,
// which a trace does not tell.
TEST_F(Page, ReadsATraceLikeTheReplayItCameFrom) {
  const auto [problem, plan] = load_plan(schedule());
  const Program program = lower(plan, problem.graph, problem.costs, problem.platform);
  const Report report = find_engine("native").simulate(program, problem.platform, "ideal", true);
  const Json trace = page_timeline(write("t.json", write_timeline(report, program, problem.platform)));
  const Json replay = page_timeline("s", report, program, problem.platform);
  const auto bars = [](const Json& timeline) {
    std::vector<std::string> list;
    const Json& events = timeline["events"];
    for (std::size_t i = 0; i < events["lane"].size(); ++i)
      list.push_back(timeline["lanes"][events["lane"][i].get<std::size_t>()]["name"].get<std::string>() + " " +
                     timeline["kinds"][events["kind"][i].get<std::size_t>()].get<std::string>() + " " +
                     timeline["names"][events["name"][i].get<std::size_t>()].get<std::string>() + " " +
                     events["micro_batch"][i].dump());
    std::ranges::sort(list);
    return list;
  };
  EXPECT_EQ(bars(trace), bars(replay));
}

// lan4: each device's network link has 1 Gbps and half of 0.2 ms; a pair crosses one out and one in.
TEST_F(Page, MatrixIsWhatAMessageAloneGets) {
  const Json view = page_platform(load_platform("lan4"))["views"].back();
  ASSERT_EQ(view["names"].size(), 4u);
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(view["bits_per_s"][i].is_null(), i % 5 == 0);  // from itself to itself
    if (i % 5 == 0) continue;
    EXPECT_DOUBLE_EQ(view["bits_per_s"][i].get<double>(), 1e9);
    EXPECT_DOUBLE_EQ(view["latency_s"][i].get<double>(), 2e-4);
  }
}

TEST_F(Page, SweepsTellAxesFromWhatStays) {
  const std::string row =
      R"("model":"mlp","iteration_s":1.5,"predicted_iteration_s":1,"samples_per_s":2,"devices_used":1})";
  const std::string file = write("results.jsonl", R"({"id":"a","policy":"random","bandwidth":"8 Mbps",)" + row + "\n" +
                                                      R"({"id":"b","policy":"op-fence","bandwidth":"1 Gbps",)" + row +
                                                      "\n" + R"({"id":"c","policy":"op-fence","bandwidth":"",)" + row);
  const Json sweep = data({file})["sweeps"][0];
  EXPECT_EQ(sweep["fixed"], (Json{{"model", "mlp"}}));
  EXPECT_EQ(sweep["axes"][1]["bits_per_s"], (Json{8e6, 1e9, nullptr}));  // the platform's own has no figure
  EXPECT_EQ(sweep["rows"].size(), 3u);
  EXPECT_EQ(data({folder_.path().string()})["sweeps"][0]["rows"], sweep["rows"]);  // by its folder
}

TEST_F(Page, RankingsKeepTheirFigures) {
  Json row = Json::parse(write_report(report_of("gpu")));
  row["speedup"] = 2;
  const Json rows = {row, {{"policy", "random"}, {"compress", "none"}, {"infeasible", "too big"}}};
  const Json kept = data({write("ranking.json", rows.dump())})["rankings"][0]["rows"];
  EXPECT_DOUBLE_EQ(kept[0]["mean_bubble_fraction"], 0.2);
  EXPECT_DOUBLE_EQ(kept[0]["iteration_s"], 0.25);
  EXPECT_EQ(kept[1]["infeasible"], "too big");
}

TEST_F(Page, AsksNothingOfANetwork) {
  const std::string html = page_html(data({schedule()}));
  const std::regex fetches(R"re((src|href)\s*=\s*["']?\s*(https?:)?//|url\(|@import|<link|<iframe|<img)re",
                           std::regex::icase);
  for (const std::string_view part : {page_files::markup, page_files::style, page_files::script}) {
    std::match_results<std::string_view::const_iterator> found;
    EXPECT_FALSE(std::regex_search(part.begin(), part.end(), found, fetches)) << found.str();
  }
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));  // and the browser holds it to that
}

TEST_F(Page, NoNameBecomesMarkup) {
  const std::string name = "</script><script>alert(1)</script><!-- & \" ' \\ \n \xE2\x80\xA8";
  const std::string harmless = page_html(data({write("a.json", write_report(report_of("gpu")))}));
  const std::string html = page_html(data({write("a.json", write_report(report_of(name)))}));
  const auto count = [](const std::string& text, std::string_view part) {
    std::size_t found = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  for (const std::string_view part : {"<script", "</script", "<!--"})
    EXPECT_EQ(count(html, part), count(harmless, part)) << part;
  EXPECT_EQ(data_in(html)["runs"][0]["report"]["devices"][0]["name"], name);
  EXPECT_EQ(page_files::script.find("innerHTML"), std::string_view::npos);
  EXPECT_EQ(page_files::script.find(".html("), std::string_view::npos);
}

TEST_F(Page, PartsCannotEndTheirElements) {
  for (const std::string_view part : {page_files::library, page_files::script}) {
    EXPECT_EQ(part.find("</script"), std::string_view::npos);
    EXPECT_EQ(part.find("<!--"), std::string_view::npos);
  }
  EXPECT_EQ(page_files::style.find("</style"), std::string_view::npos);
}

TEST_F(Page, SameInputGivesTheSameBytes) {
  const std::string file = schedule();
  EXPECT_EQ(page_html(data({file})), page_html(data({file})));
}

TEST_F(Page, RefusesWhatIsNoResult) {
  expect_refused((folder_.path() / "none.json").string(), HasSubstr("none.json"));
  expect_refused(folder_.path().string(), HasSubstr("neither results.jsonl nor journal.jsonl"));
  expect_refused(write("a.json", "{\"a\": 1}"), AllOf(HasSubstr("a.json"), HasSubstr("give a report.json")));
  expect_refused(write("b.json", "[]"), HasSubstr("empty list"));
  expect_refused(write("c.json", R"([{"policy": 3}])"), AllOf(HasSubstr("c.json"), HasSubstr("policy")));
  expect_refused(write("d.jsonl", R"({"policy": "random"})"), AllOf(HasSubstr("d.jsonl"), HasSubstr("id")));
  expect_refused(write("e.json", R"({"traceEvents": [{"ph": "X", "pid": 1}]})"), HasSubstr("process_name"));
  expect_refused(write("f.json", R"({"engine": "simgrid"})"), AllOf(HasSubstr("f.json"), HasSubstr("network_profile")));
  EXPECT_THAT([&] { page_data({.results = {}, .platforms = {"lan44"}}); },
              ThrowsMessage<InputError>(HasSubstr("lan4")));
}

// The largest that ships: 48 devices at 11 sites, with its whole timeline and both matrices.
TEST_F(Page, StaysSmallForFortyEightDevices) {
  RunConfig config;
  config.model = "gpt2";
  config.platform = "testbed-3";
  config.policy = "equal-number";
  config.micro_batches = 32;
  const Problem problem = load_problem(config);
  const std::string file =
      write("s.json", write_schedule(make_schedule(config, problem), problem.graph, problem.platform));
  const Json page = data({file});
  EXPECT_EQ(page["runs"][0]["report"]["devices_used"], 48);
  EXPECT_LT(page_html(page).size(), 5'000'000u);
}

}  // namespace
}  // namespace fusion::sim
