#include "exec/execute.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/compress/payload.h"
#include "exec/execute_checkpoint.h"
#include "exec/execute_council.h"
#include "exec/execute_status.h"
#include "exec/execute_walk.h"

namespace fusion::exec {
namespace {

constexpr Seconds deadline_floor{5};
constexpr double deadline_factor = 4;

struct Norm {
  ParameterId parameter;
  double squared;
};

/// Squares of all parameters' gradients, added in the order of their ids on rank 0 and told to all.
double global_squared_norm(Walk& walk, Council& council, std::int64_t step) {
  std::vector<Norm> mine;
  for (const ParameterId p : walk.owned())
    mine.push_back({p, squared_norm(walk.store().gradients[p.index()].floats())});
  Bytestring bytes;
  compress::append(bytes, std::span<const Norm>(mine));
  const auto all = council.gather(Topic::norms, step, std::move(bytes), "the norm of its gradients");

  std::vector<Norm> norms;
  for (const Bytestring& share : all) {
    norms.resize(norms.size() + share.size() / sizeof(Norm));
    compress::PayloadReader(share).fill(std::span(norms).last(share.size() / sizeof(Norm)));
  }
  std::ranges::sort(norms, {}, &Norm::parameter);
  double sum = 0;
  for (const Norm& norm : norms) sum += norm.squared;
  Bytestring told;
  compress::append(told, sum);
  return compress::PayloadReader(council.tell(Topic::norms, step, std::move(told), "the norm of all gradients"))
      .one<double>();
}

/// Where a rank would start, and what rank 0 makes of that.
struct Start {
  std::int64_t step = 0;
  std::int64_t stop = 0;  ///< of 8 bytes: no padding travels
};
struct Agreement {
  std::uint8_t alike = 0, stop = 0;
};

/// What rank 0 decides at the end of a step.
struct Decision {
  double loss = 0;
  std::uint8_t stop = 0;
};

class Run {
 public:
  Run(const Program& program, const Graph& graph, Transport& transport, const BackendRow& backend, const DataSet* data,
      const TrainOptions& options)
      : program_(program),
        graph_(graph),
        transport_(transport),
        options_(options),
        council_(transport),
        walk_(program, graph, transport, backend, data, options),
        meter_(program) {}

  RankResult operator()() {
    transport_.set_deadline(options_.deadline);
    walk_.limit_work(work_limit(given_deadline(), {}));
    data_ = agree_on_data(council_, walk_.data());
    if (is_first() && options_.notice && !data_.remark.empty()) options_.notice(data_.remark);
    result_.first_step = resume_step(walk_, program_, graph_, options_, data_, is_first());
    agree_on_start();
    std::int64_t done = result_.first_step, written = done;
    while (done < options_.steps && !result_.stopped) {
      run_step(done++);
      const std::int64_t every = options_.checkpoint.every;
      if (every > 0 && done % every == 0) write(written, done);
    }
    write(written, done);
    transport_.flush();
    result_.steps = done;
    result_.store = std::move(walk_.store());
    result_.measured = meter_.measured();
    result_.channels = meter_.channels();
    return std::move(result_);
  }

 private:
  bool is_first() const { return transport_.rank() == 0; }

  void write(std::int64_t& written, std::int64_t done) {
    if (options_.checkpoint.directory.empty() || written == done) return;
    write_step(walk_, graph_, council_, options_, data_, done);
    written = done;
  }

  bool asked_to_stop() const { return options_.stop != nullptr && options_.stop->load(); }

  /// A directory that only some ranks see would let them start at different steps. Who was asked to stop by now has all
  /// stop.
  void agree_on_start() {
    Bytestring mine;
    compress::append(mine, Start{result_.first_step, asked_to_stop() ? 1 : 0});
    const std::string what = "the step to start from";
    const auto all = council_.gather(Topic::start, 0, std::move(mine), what);
    Agreement agreement{1, 0};
    for (const Bytestring& bytes : all) {
      const auto start = compress::PayloadReader(bytes).one<Start>();
      if (start.step != result_.first_step) agreement.alike = 0;
      if (start.stop != 0) agreement.stop = 1;
    }
    Bytestring told;
    compress::append(told, agreement);
    agreement = compress::PayloadReader(council_.tell(Topic::start, 0, std::move(told), what)).one<Agreement>();
    result_.stopped = agreement.stop != 0;
    if (agreement.alike == 0)
      throw InputError(options_.checkpoint.directory.string(), "checkpoint",
                       "is not the same for all ranks: they would start from different steps; it must be shared");
  }

  void run_step(std::int64_t step) {
    const Seconds started = transport_.now();
    const double loss = walk_.run(step, [&] {
      if (options_.optimizer.clip_norm == 0) return 1.0F;
      return clip_scale(options_.optimizer, global_squared_norm(walk_, council_, step));
    });
    const bool timeline = options_.timeline && step == timeline_step();
    RankStatus status = own_status(step, loss, timeline);
    adapt_deadline(status);
    const auto all =
        council_.gather(Topic::status, step, to_bytes(status), "the end of step " + std::to_string(step + 1));
    Decision decision;
    std::vector<RankStatus> statuses;
    for (const Bytestring& bytes : all) {
      statuses.push_back(status_of(bytes));
      decision.loss += statuses.back().loss;
      if (statuses.back().stop) decision.stop = 1;
    }
    Bytestring told;
    compress::append(told, decision.loss);
    compress::append(told, decision.stop);
    told = council_.tell(Topic::decision, step, std::move(told), "the end of step " + std::to_string(step + 1));
    compress::PayloadReader in(told);
    decision.loss = in.one<double>();
    decision.stop = in.one<std::uint8_t>();
    if (is_first()) conclude(step, decision.loss, started, statuses);
    result_.stopped = decision.stop != 0;
    if (!std::isfinite(decision.loss))
      throw RuntimeFault("the loss of step " + std::to_string(step + 1) +
                         " is not finite; a lower --learning-rate or --clip-norm may help");
  }

  std::int64_t timeline_step() const {
    return std::min(result_.first_step + 1, std::max(options_.steps, std::int64_t{1}) - 1);
  }

  RankStatus own_status(std::int64_t step, double loss, bool timeline) {
    RankStatus status;
    status.stop = asked_to_stop();
    status.loss = loss;
    status.times = walk_.take_times();
    if (!timeline) status.times.events.clear();
    add_transfers(status, transport_.take_transfers(), transport_.rank(), step, timeline);
    return status;
  }

  std::optional<Seconds> given_deadline() const {
    return options_.fixed_deadline ? std::optional(options_.deadline) : std::nullopt;
  }

  /// From the plan's times to measured ones.
  void adapt_deadline(const RankStatus& status) {
    longest_work_ = std::max(longest_work_, status.times.longest);
    walk_.limit_work(work_limit(given_deadline(), longest_work_));
    if (options_.fixed_deadline) return;
    longest_ = std::max(longest_, status.times.longest);
    for (const ChannelUse& use : status.channels)
      longest_ = std::max(longest_, use.busy / static_cast<double>(std::max<std::size_t>(use.messages, 1)));
    transport_.set_deadline(std::max(deadline_floor, longest_ * deadline_factor));
  }

  void conclude(std::int64_t step, double loss, Seconds started, const std::vector<RankStatus>& statuses) {
    StepSummary summary{
        .step = step + 1, .loss = loss, .iteration = transport_.now() - started, .busy = {}, .channels = {}};
    for (const RankStatus& status : statuses) {
      summary.busy.push_back(status.times.busy);
      summary.channels.insert(summary.channels.end(), status.channels.begin(), status.channels.end());
    }
    meter_.add(summary, statuses, started);
    result_.loss.push_back(loss);
    if (options_.on_step) options_.on_step(summary);
  }

  const Program& program_;
  const Graph& graph_;
  Transport& transport_;
  const TrainOptions& options_;
  Council council_;
  Walk walk_;
  Meter meter_;
  DataFacts data_;
  RankResult result_;
  Seconds longest_{}, longest_work_{};
};

}  // namespace

RankResult execute(const Program& program, const Graph& graph, Transport& transport, const BackendRow& backend,
                   const DataSet* data, const TrainOptions& options) {
  check(transport.num_ranks() == static_cast<int>(program.devices.size()), "a rank per device of the program");
  return Run(program, graph, transport, backend, data, options)();
}

bool needs_data(const Program& program, const Graph& graph, int rank) {
  const DeviceId device = program.devices[static_cast<std::size_t>(rank)].device;
  return std::ranges::any_of(program.stages, [&](const Stage& stage) {
    return stage.device == device && !part_of(graph, stage).data.empty();
  });
}

Seconds planned_deadline(const Program& program, const Platform& platform) {
  Seconds longest{};
  for (const Task& task : program.tasks) {
    longest = std::max(longest, task.duration + task.codec_duration);
    if (task.kind == TaskKind::send)
      longest = std::max(longest, transfer_time(platform, task.device, task.peer, task.bytes));
  }
  return std::max(deadline_floor, longest * deadline_factor);
}

std::optional<Seconds> work_limit(std::optional<Seconds> given_deadline, std::optional<Seconds> longest) {
  constexpr Seconds floor(60);
  constexpr double many = 20, deadlines = 10;
  if (!longest) return given_deadline ? std::optional(std::max(floor, *given_deadline * deadlines)) : std::nullopt;
  return std::max(given_deadline ? *given_deadline * deadlines : floor, *longest * many);
}

}  // namespace fusion::exec
