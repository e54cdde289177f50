// fusion-exec train: runs a plan with real numbers, under mpirun or as threads of this process.
#include <charconv>
#include <memory>

#include "core/base/error.h"
#include "exec/cli.h"
#include "exec/ending.h"
#include "exec/handshake.h"
#include "exec/launch.h"
#include "exec/step_log.h"
#include "exec/stop_signal.h"
#include "exec/world.h"

namespace fusion::exec {
namespace {

struct Options {
  Output output;
  PlanFlags plan;
  std::string data, backends = "torch", device, report, timeline, jsonl, checkpoint, deadline, peak;
  OptimizerSettings optimizer;
  CodecCourse codecs;
  std::string feedback = "all", over = "tensor";
  std::int64_t steps = 0, checkpoint_every = 0, checkpoint_keep = 0;
  bool resume = false, shape = false;
};

/// "torch", for all ranks, or a list by rank.
std::vector<const BackendRow*> backends_of(const std::string& list, std::size_t num_ranks) {
  std::vector<const BackendRow*> rows;
  for (const std::string& name : cli::split_list("--backend", list)) rows.push_back(&find_backend(name));
  if (rows.size() == 1) rows.resize(num_ranks, rows.front());
  if (rows.size() != num_ranks)
    throw InputError("", "--backend",
                     in_quotes(list) + " names " + std::to_string(rows.size()) + " backends for " +
                         std::to_string(num_ranks) + " ranks; give one for all, or one for each");
  return rows;
}

TrainOptions train_options(const Options& options, const Plan& plan, const Program& program) {
  TrainOptions train;
  train.steps = options.steps;
  train.seed = plan.schedule.seed;
  train.optimizer = options.optimizer;
  train.optimizer.kind = plan.schedule.training.optimizer;
  train.codecs = options.codecs;
  train.codecs.feedback = parsed("--feedback", options.feedback, parse_feedback);
  train.codecs.over = parsed("--topk-over", options.over, parse_topk_over);
  train.backend = {.device = options.device, .recompute = plan.schedule.training.recompute};
  train.checkpoint = {.directory = options.checkpoint,
                      .every = options.checkpoint_every,
                      .keep = options.checkpoint_keep,
                      .resume = options.resume,
                      .model = plan.problem.graph.name + ' ' + network_hash(plan.problem.graph)};
  train.deadline =
      options.deadline.empty() ? planned_deadline(program, plan.problem.platform) : parse_seconds(options.deadline);
  train.fixed_deadline = !options.deadline.empty();
  train.timeline = !options.timeline.empty();
  train.stop = &stop_requested();
  return train;
}

/// The report of the plan's program with what was measured; bytes as they travelled.
Report report_of(const Plan& plan, const Program& program, const RankResult& result, std::string engine,
                 std::string network) {
  Report report = make_report(program, plan.problem.platform, std::move(engine), std::move(network), result.measured);
  for (std::size_t c = 0; c < report.links.size(); ++c) report.links[c].bytes = result.channels[c].bytes;
  report.loss = result.loss;
  return report;
}

void show(const Report& report, bool shaped) {
  print(report);
  if (report.engine == "threads" && !shaped && !report.links.empty())
    std::puts("Messages between threads of one process take no time; --shape gives them that of the platform.");
}

void finish(const Options& options, const Plan& plan, const Program& program, const Report& report,
            const RankResult& result) {
  if (result.stopped)
    note(options.output, (report.loss.empty() ? "stopped before step " + std::to_string(result.steps + 1)
                                              : "stopped after step " + std::to_string(result.steps)) +
                             ", as asked" + (options.checkpoint.empty() ? "" : "; go on with --resume"));
  if (result.stopped && report.loss.empty()) return;
  if (report.loss.empty())
    return note(options.output, "nothing left to do: " + std::to_string(result.steps) + " steps are done");
  if (options.output.json)
    std::fputs(write_report(report).c_str(), stdout);
  else
    show(report, options.shape);
  cli::write(options.output, {{options.report, [&] { return write_report(report); }, ""},
                              {options.timeline, [&] { return write_timeline(report, program, plan.problem.platform); },
                               "open it in https://ui.perfetto.dev"}});
}

std::string network_of(const Options& options, const Plan& plan) {
  return options.shape ? "shaped: bandwidth and latency of " + plan.schedule.platform + " by pair, links not shared"
                       : "as it is";
}

Work work_of(const Options& options, const Plan& plan, const Program& program) {
  std::vector<DeviceId> devices;
  for (const DeviceProgram& device : program.devices) devices.push_back(device.device);
  return {.program = program,
          .graph = plan.problem.graph,
          .backends = backends_of(options.backends, devices.size()),
          .open_data = [&] { return open_data(options.data, plan.problem.graph, plan.schedule.seed); },
          .shapes = options.shape ? shapes_of(plan.problem.platform, devices) : LinkShapes{}};
}

void announce(const Options& options, const World& world, std::size_t num_ranks) {
  if (world.engine() == "threads" && num_ranks > 1)
    note(options.output, "all " + std::to_string(num_ranks) + " ranks run as threads of this process");
  for (const std::string& warning : preflight()) note(options.output, warning);
}

/// How long a rank may be silent while all start, and how long that may take: a job's processes do not start together.
StartOptions start_of(const Options& options) {
  constexpr Seconds least_for_a_start(10);
  StartOptions start;
  if (options.deadline.empty()) return start;
  start.silence = parse_seconds(options.deadline);
  start.limit = std::max(start.silence, least_for_a_start);
  return start;
}

struct Trained {
  Plan plan;
  Program program;
  RankResult result;
  std::optional<StepLog> log;  ///< on rank 0
};

Trained train_with(const Options& options, World& world) {
  PlanFlags::Chosen chosen = options.plan.resolve();
  const Plan& plan = chosen.plan;
  Program program = cli::program_of(chosen);
  std::optional<FlopsPerSecond> peak;
  if (!options.peak.empty()) peak = parsed("--peak", options.peak, parse_flops_per_second);
  const Work work = work_of(options, plan, program);
  std::optional<StepLog> log;
  RankResult result = world.run(work, [&] {
    TrainOptions train = train_options(options, plan, program);
    if (!world.is_first()) return train;
    cli::require_writable({options.report, options.timeline, options.jsonl});
    train.notice = [&](const std::string& line) { note(options.output, line); };
    log.emplace(options.jsonl, options.resume,
                figures_of(program, work.graph, plan.problem.platform, options.steps, peak), train.notice);
    train.on_step = [&](const StepSummary& step) { (*log)(step); };
    announce(options, world, work.backends.size());
    return train;
  });
  return {std::move(chosen.plan), std::move(program), std::move(result), std::move(log)};
}

void train(const Options& options) {
  World world(start_of(options));
  std::optional<Trained> trained;
  world.together([&] {
    try {
      trained = train_with(options, world);
    } catch (const CLI::ParseError& error) {
      throw UsageError(std::string(error.what()) + "; see --help");
    }
  });
  if (!world.is_first()) return;
  const auto& [plan, program, result, log] = *trained;
  const Report report = report_of(plan, program, result, world.engine(), network_of(options, plan));
  finish(options, plan, program, report, result);
  log->finish();
}

std::string data_help() {
  std::string help;
  for (const DataRow& row : data_table())
    help += (help.empty() ? "" : "; ") + std::string(row.name) + ": " + std::string(row.help);
  return help;
}

std::string backend_help() {
  std::string help = "one for all ranks, or a list by rank";
  for (const BackendRow& row : backend_table()) help += "; " + std::string(row.name) + ": " + std::string(row.help);
  return help;
}

/// A finite number of at least zero, and below `limit`.
CLI::Validator amount(double limit) {
  return {[limit](const std::string& text) {
            const char* end = text.data() + text.size();
            double value = 0;
            const auto [stop, error] = std::from_chars(text.data(), end, value);
            const bool good = error == std::errc{} && stop == end && value >= 0 && value < limit;
            return good ? std::string() : in_quotes(text) + " is not a number from 0 to " + significant(limit);
          },
          ""};
}

/// A rank speaks every 0.1 s, and a busy machine may hold that up.
CLI::Validator long_enough_to_be_silent() {
  return {[](const std::string& text) -> std::string {
            try {
              if (parse_seconds(text) >= Seconds(0.5)) return {};
              return in_quotes(text) +
                     " is too short: ranks speak every 0.1 s, and a busy machine holds that up; give " +
                     "0.5 s or more";
            } catch (const std::invalid_argument& fault) {
              return fault.what();
            }
          },
          ""};
}

void declare_course(CLI::App& command, Options& options) {
  command.add_option("--compress-after", options.codecs.after, "so many steps at the start send everything as it is")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command
      .add_option("--compress-warmup", options.codecs.warmup,
                  "over so many steps from there top-k's ratio grows to its own")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command
      .add_option("--feedback", options.feedback,
                  "whose error feedback is kept: none, gradients, all (activations too)")
      ->capture_default_str()
      ->type_name("NAME");
}

void declare_topk_over(CLI::App& command, std::string& over) {
  command
      .add_option("--topk-over", over, "top-k of the whole tensor, or of its rows: each token or sample keeps alike")
      ->capture_default_str()
      ->type_name("tensor|rows");
}

void declare_optimizer(CLI::App& command, OptimizerSettings& settings) {
  const auto declare = [&](const char* flag, double& value, const char* help, const CLI::Validator& valid) {
    command.add_option(flag, value, help)->capture_default_str()->type_name("NUMBER")->check(valid);
  };
  declare("--learning-rate", settings.learning_rate, "of every optimizer", amount(1e6));
  declare("--momentum", settings.momentum, "of momentum", amount(1));
  declare("--beta1", settings.beta1, "of adam", amount(1));
  declare("--beta2", settings.beta2, "of adam", amount(1));
  declare("--epsilon", settings.epsilon, "of adam", amount(1e6));
  declare("--weight-decay", settings.weight_decay, "decoupled with adam (AdamW), else added to the gradient",
          amount(1e6));
  declare("--clip-norm", settings.clip_norm, "largest norm of all gradients together; 0: off", amount(1e9));
}

}  // namespace

void declare_train(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "train a network as a plan says, on MPI ranks or on threads");
  command->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // what run scripts are given wins
  const auto options = std::make_shared<Options>();
  options->plan.declare(*command);
  command->add_option("--data", options->data, data_help())->required()->type_name("SOURCE");
  command->add_option("--steps", options->steps, "train until so many steps are done, those before a --resume included")
      ->required()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  declare_optimizer(*command, options->optimizer);
  declare_course(*command, *options);
  declare_topk_over(*command, options->over);
  command->add_option("--backend", options->backends, backend_help())->capture_default_str()->type_name("NAME[,NAME…]");
  command->add_option("--device", options->device, "of the torch backend: cpu, cuda, cuda:1")->type_name("NAME");
  command->add_flag("--shape", options->shape, "slow every link down to what the platform file says of it");
  CLI::Option* checkpoint =
      command->add_option("--checkpoint", options->checkpoint, "directory for checkpoints, shared by all ranks")
          ->type_name("DIR");
  command->add_option("--checkpoint-every", options->checkpoint_every, "steps from one to the next; 0: at the end only")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->needs(checkpoint);
  command->add_option("--checkpoint-keep", options->checkpoint_keep, "newest checkpoints that stay; 0: all")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->needs(checkpoint);
  command
      ->add_flag("--resume", options->resume,
                 "go on from the newest complete checkpoint of the directory, on any number of ranks")
      ->needs(checkpoint);
  command
      ->add_option(
          "--deadline", options->deadline,
          "how long a rank may be silent; else it follows from the plan and from what is measured. Also of the "
          "start, 10 s at least; else 60 s")
      ->check(long_enough_to_be_silent())
      ->type_name("TIME");
  command->add_option("--peak", options->peak, "FLOP/s that one rank's device can reach; shows the utilisation (MFU)")
      ->type_name("SPEED");
  command->add_option("--report", options->report, "report.json to write, which fusion-sim compare reads")
      ->type_name("FILE");
  command->add_option("--timeline", options->timeline, "Chrome trace of one step to write, for Perfetto")
      ->type_name("FILE");
  command->add_option("--jsonl", options->jsonl, "file that gets one line of JSON per step")->type_name("FILE");
  add_output_flags(*command, options->output);
  command->footer(
      "Under mpirun every process is a rank; alone, all ranks are threads of this process.\n"
      "Examples:\n"
      "  fusion-exec train --model mlp --platform lan4 --micro-batch 8 --data idx:DIR --steps 100\n"
      "  fusion-exec train --plan schedule.json --data text:book.txt --steps 20 --shape --report executed.json\n"
      "  mpirun -np 4 fusion-exec train --plan schedule.json --data text:book.txt --steps 1000 \\\n"
      "    --checkpoint run1 --checkpoint-every 100 --resume\n"
      "  fusion-exec launch --plan schedule.json …        prints the whole mpirun line, with the flags that matter\n"
      "SIGTERM, SIGINT and SIGUSR1 end the run after its step, with a checkpoint where --checkpoint is given. Under "
      "mpirun\n"
      "send SIGUSR1 to mpirun, or SIGTERM to the script that launch writes: mpirun ends a job at once on the others.");
  command->callback([options] { train(*options); });
}

}  // namespace fusion::exec
