// fusion-sim report: one offline HTML page from any mix of results.
#include "core/base/file.h"
#include "sim/cli.h"
#include "sim/page.h"

namespace fusion::sim {
namespace {

struct Options {
  Output output;
  PageRequest request;
  std::string to = "report.html";
};

void write_page(const Options& options) {
  cli::require_writable({options.to});
  cli::write(options.output,
             {{options.to, [&] { return page_html(page_data(options.request)); }, "open it in a browser"}});
}

}  // namespace

void declare_report(CLI::App& app) {
  CLI::App* command = app.add_subcommand("report", "one offline HTML page from any mix of results");
  const auto options = std::make_shared<Options>();
  command
      ->add_option("results", options->request.results,
                   "report.json (simulated or executed), schedule.json (replayed here by the native engine), "
                   "timeline.json, ranking.json of rank -o, the folder of a sweep")
      ->required();
  command->add_option("-o,--output", options->to, "page to write")->capture_default_str()->type_name("FILE");
  command
      ->add_option("--platform", options->request.platforms,
                   "platforms whose bandwidths and latencies to show; a schedule brings its own")
      ->allow_extra_args(false)
      ->type_name("NAME");
  add_quiet_flag(*command, options->output);
  command->footer(
      "The page is one file that asks nothing of the network: send it, print it, read it on a phone.\n"
      "Examples:\n"
      "  fusion-sim report schedule.json                                 timeline, devices, links, memory, platform\n"
      "  fusion-sim report ranking.json schedule.json -o report.html     the ranking too\n"
      "  fusion-sim report simulated.json executed.json timeline.json    simulated beside executed, loss curve\n"
      "  fusion-sim report results/sweep -o sweep.html                   where each policy wins over bandwidth");
  command->callback([options] { write_page(*options); });
}

}  // namespace fusion::sim
