// fusion-exec launch: how to start a plan with MPI.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "core/base/ending.h"
#include "core/base/file.h"
#include "core/cli/program.h"
#include "core/program/lower.h"
#include "exec/cli.h"
#include "exec/execute.h"
#include "exec/launch.h"

namespace fusion::exec {
namespace {
namespace fs = std::filesystem;

struct Options {
  Output output;
  std::string plan, to, hosts, interface;
  std::vector<std::string> arguments;
  long timeout_s = 86'400;
};

/// The first of the flags given to `train` that say what to run, which launch says itself; nothing where none does.
std::optional<std::string> contradiction(const CLI::App& train) {
  std::vector<std::string> own = {"--plan", "--config"};
  for (const RunOption& option : run_options()) own.push_back("--" + std::string(option.key));
  for (const std::string& flag : own)
    if (train.get_option(flag)->count() > 0) return flag;
  return {};
}

/// Throws UsageError for what train would not take.
void require_train_arguments(const std::vector<std::string>& arguments) {
  CLI::App probe;
  declare_train(probe);
  CLI::App& train = *probe.get_subcommand("train");
  train.callback([] {});
  std::vector<std::string> words(arguments.rbegin(), arguments.rend());
  words.emplace_back("train");
  try {
    probe.parse(words);
  } catch (const CLI::Success&) {
    throw UsageError("after --: give arguments of a run; fusion-exec train --help tells them");
  } catch (const CLI::ParseError& error) {
    throw UsageError("after --: " + cli::refusal_of(probe, error, "fusion-exec train --help"));
  }
  if (const auto flag = contradiction(train))
    throw UsageError("after --: leave out " + *flag + ": what runs is the --plan of launch, before the --");
}

void require_names_of_hosts(const std::vector<std::string>& hosts) {
  for (const std::string& host : hosts)
    if (host.empty() || host.find_first_of(" \t=#") != std::string::npos)
      throw InputError("", "--hosts", in_quotes(host) + " is no name of a host");
}

Launch launch_of(const Options& options, std::size_t num_ranks) {
  Launch launch;
  launch.program = fs::read_symlink("/proc/self/exe").string();
  launch.arguments = {"train", "--plan", fs::absolute(options.plan).string()};
  launch.arguments.insert(launch.arguments.end(), options.arguments.begin(), options.arguments.end());
  launch.num_ranks = num_ranks;
  if (!options.hosts.empty()) launch.hosts = cli::split_list("--hosts", options.hosts);
  if (launch.hosts.size() == 1) launch.hosts.resize(num_ranks, launch.hosts.front());
  if (!launch.hosts.empty() && launch.hosts.size() != num_ranks)
    throw InputError("", "--hosts",
                     "names " + std::to_string(launch.hosts.size()) + " hosts; the plan uses " +
                         std::to_string(num_ranks) + " devices, and each wants the host that it is on");
  require_names_of_hosts(launch.hosts);
  launch.directory = fs::current_path().string();
  launch.cores = std::thread::hardware_concurrency();
  launch.interface = options.interface;
  launch.timeout_s = options.timeout_s;
  launch.as_root = ::geteuid() == 0;
  return launch;
}

void write_files(const Options& options, const Launch& launch) {
  const fs::path directory = fs::absolute(options.to), run = directory / "run", hostfile = directory / "hostfile";
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) throw InputError(options.to, "", "can't be made: " + error.message());
  write_text(run, run_script(launch, hostfile.string()));
  fs::permissions(run, fs::perms::owner_exec | fs::perms::group_exec, fs::perm_options::add);
  write_text(directory / "job.sbatch", sbatch_script(launch));
  if (!launch.hosts.empty()) write_text(hostfile, hostfile_of(launch));
  note(options.output, "wrote " + run.string() + ", job.sbatch" + (launch.hosts.empty() ? "" : ", hostfile"));
}

void launch(const Options& options) {
  require_train_arguments(options.arguments);
  const Plan plan = load_plan(options.plan);
  const auto& [graph, costs, platform] = plan.problem;
  const Program program = lower(plan.schedule, graph, costs, platform);
  require_executable(program, graph);
  const Launch launch = launch_of(options, program.devices.size());
  for (const std::string& warning : preflight(launch)) note(options.output, warning);
  const std::string hostfile = options.to.empty() ? "hostfile" : (fs::absolute(options.to) / "hostfile").string();
  std::puts(mpirun_line(launch, hostfile).c_str());
  if (options.to.empty() && !launch.hosts.empty()) std::printf("\n# hostfile\n%s", hostfile_of(launch).c_str());
  if (!options.to.empty()) write_files(options, launch);
}

}  // namespace

void declare_launch(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("launch", "print how to start a plan with MPI: mpirun's line, hostfile, sbatch");
  const auto options = std::make_shared<Options>();
  command->add_option("--plan", options->plan, "schedule.json of fusion-sim plan")->required()->type_name("FILE");
  command->add_option("arguments", options->arguments, "of fusion-exec train, after --");
  command
      ->add_option(
          "--hosts", options->hosts,
          "host of each device of the plan, in its order; one name for all; else this machine. job.sbatch asks Slurm "
          "for them")
      ->type_name("HOST[,HOST…]");
  command->add_option("--interface", options->interface, "network interface of the data, like eth0")->type_name("NAME");
  command->add_option("--timeout", options->timeout_s, "seconds after which mpirun ends the run")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command
      ->add_option(
          "-o,--output", options->to,
          "directory for the scripts run and job.sbatch, and the hostfile; relative paths in them count from the "
          "directory in which launch is called")
      ->type_name("DIR");
  add_quiet_flag(*command, options->output);
  command->footer(
      "Examples:\n"
      "  fusion-exec launch --plan schedule.json -- --data text:book.txt --steps 100\n"
      "  fusion-exec launch --plan schedule.json --hosts n1,n1,n2,n3 --interface eth0 -o run1 -- --data text:book.txt "
      "\\\n"
      "    --steps 1000 --checkpoint /shared/run1 --checkpoint-every 50\n"
      "  run1/run --resume          what it is called with goes on to fusion-exec train");
  command->callback([options] { launch(*options); });
}

}  // namespace fusion::exec
