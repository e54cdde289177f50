// fusion-sim sweep: every combination of some options, simulated; resumable.
#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "sim/cli.h"
#include "sim/launch_rank.h"
#include "sim/progress.h"
#include "sim/sweep.h"

namespace fusion::sim {
namespace {

struct Options {
  Output output;
  RunFlags run;
  std::vector<std::string> grid;
  std::string directory = "sweep";
  int workers = cores_per_process();
};

/// A file gives axes, and so does key=value,value; what comes later on the command line replaces.
std::vector<Axis> axes_of(const Options& options) {
  std::vector<Axis> axes;
  const auto put = [&](Axis axis) {
    const auto same = std::ranges::find(axes, axis.key, &Axis::key);
    same == axes.end() ? axes.push_back(std::move(axis)) : void(*same = std::move(axis));
  };
  for (const std::string& text : options.grid) {
    if (!text.ends_with(".toml") || text.find('=') != std::string::npos) {
      put(parse_axis(text));
      continue;
    }
    for (Axis& axis : load_axes(text)) put(std::move(axis));
  }
  return axes;
}

/// The fastest, a few lines a person likes to read; everything is in the files.
void show(const std::vector<std::string>& lines, const std::vector<Axis>& axes) {
  constexpr std::size_t most = 10;
  std::vector<nlohmann::ordered_json> rows;
  std::map<std::string, std::size_t> failures;
  for (const std::string& line : lines) {
    auto row = nlohmann::ordered_json::parse(line);
    row.contains("failed") ? void(++failures[row["failed"]]) : rows.push_back(std::move(row));
  }
  const auto rate = [](const nlohmann::ordered_json& row) { return -row["samples_per_s"].get<double>(); };
  std::ranges::stable_sort(rows, {}, rate);
  std::vector<Column> columns = {{"", Align::right}};
  for (const Axis& axis : axes) columns.push_back({axis.key});
  columns.insert(columns.end(), {{"iteration", Align::right}, {"samples/s", Align::right}, {"devices", Align::right}});
  Table table(columns);
  for (std::size_t i = 0; i < std::min(most, rows.size()); ++i) {
    std::vector<std::string> cells = {std::to_string(i + 1)};
    for (const Axis& axis : axes) cells.push_back(rows[i][axis.key].get<std::string>());
    cells.push_back(format(Seconds(rows[i]["iteration_s"].get<double>())));
    cells.push_back(significant(rows[i]["samples_per_s"].get<double>()));
    cells.push_back(std::to_string(rows[i]["devices_used"].get<std::size_t>()));
    table.add(std::move(cells), i == 0 ? Emphasis::strong : Emphasis::none);
  }
  print(table);
  std::printf("\n%zu set-ups", lines.size());
  for (const auto& [kind, count] : failures) std::printf(", %zu failed: %s", count, kind.c_str());
  std::puts(rows.size() > most ? "; the fastest are shown" : "");
}

void run_sweep(const Options& options) {
  const std::vector<Axis> axes = axes_of(options);
  if (axes.empty()) throw CLI::ValidationError("sweep", "give a sweep.toml or axes, like policy=op-fence,random");
  const std::vector<SetUp> all = set_ups(options.run.resolve_partly(), axes);
  std::vector<std::string> lines;
  {
    Progress progress(all.size(), options.output.quiet);
    lines = sweep(all, options.directory, options.workers,
                  [&](const SetUp& each) { progress.next(each.config.policy + ", " + each.config.compress); });
  }
  if (launch_rank() != 0) return;  // one of them tells
  if (options.output.json) {
    std::printf("[");
    for (std::size_t i = 0; i < lines.size(); ++i) std::printf("%s\n  %s", i == 0 ? "" : ",", lines[i].c_str());
    std::puts("\n]");
  } else {
    show(lines, axes);
  }
  note(options.output, "wrote " + options.directory + "/results.csv and results.jsonl");
}

}  // namespace

void declare_sweep(CLI::App& app) {
  CLI::App* command = app.add_subcommand("sweep", "every combination of some options, simulated; resumable");
  const auto options = std::make_shared<Options>();
  command
      ->add_option("grid", options->grid,
                   "sweep.toml with a list of values per option, and axes key=value,value; every option of a run is "
                   "one, and so are engine and network")
      ->required();
  command->add_flag_callback(
      "-m", [] {}, "marks a grid on the command line; axes are understood without it too");
  options->run.declare_all(*command);
  command->add_option("-o,--output", options->directory, "folder of results; what it holds already is not run again")
      ->capture_default_str()
      ->type_name("DIR");
  command->add_option("--workers", options->workers, "processes")->check(CLI::Range(1, 1024))->capture_default_str();
  add_output_flags(*command, options->output);
  command->footer(
      "Engine native unless an axis says simgrid. Stop it whenever you like: the same line goes on from there.\n"
      "Start it on as many hosts as share the folder, by mpirun, srun or by hand: each takes what no other is at, and\n"
      "takes over what one leaves that dies (mpirun ends them all then, unless it has --enable-recovery).\n"
      "Examples:\n"
      "  fusion-sim sweep experiments/sweep.toml -o results/\n"
      "  fusion-sim sweep -m model=gpt2,resnet101 platform=lan4 policy=op-fence,equal-compute \"bandwidth=8 Mbps,1 "
      "Gbps\"\n"
      "  mpirun -np 64 --hostfile hosts fusion-sim sweep experiments/sweep.toml -o /shared/results");
  command->callback([options] { run_sweep(*options); });
}

}  // namespace fusion::sim
