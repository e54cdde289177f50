// Simulations in forked children, since SimGrid allows one engine per process. A child sends back one letter and what
// follows from it: 'R' and what was measured, 'F' and the text of a RuntimeFault, 'E' and that of any other exception.
#include <cstring>

#include "core/base/error.h"
#include "sim/simulate.h"
#include "sim/workers.h"

namespace fusion::sim {
namespace {

void append(std::string& text, double value) { text.append(reinterpret_cast<const char*>(&value), sizeof value); }

std::string pack(const Report& report) {
  std::string text = "R";
  append(text, report.iteration.value);
  for (const DeviceReport& device : report.devices) append(text, device.busy.value);
  for (const LinkReport& link : report.links) append(text, link.busy.value);
  return text;
}

Measured unpack(const std::string& text, const Program& program) {
  const std::size_t num_devices = program.devices.size(), num_channels = channels(program).size();
  check(text.size() == 1 + sizeof(double) * (1 + num_devices + num_channels), "a child's answer has the wrong size");
  std::vector<Seconds> times(1 + num_devices + num_channels);
  std::memcpy(times.data(), text.data() + 1, text.size() - 1);
  const auto devices = times.begin() + 1, links = devices + static_cast<std::ptrdiff_t>(num_devices);
  return {times.front(), {devices, links}, {links, times.end()}, planned_kinds(program), {}};
}

std::string answer(const Job& job) {
  try {
    SimulateOptions options = job.options;
    options.timeline = false;
    return pack(simulate(*job.program, *job.platform, options));
  } catch (const RuntimeFault& fault) {
    return std::string("F") + fault.what();
  } catch (const std::exception& error) {
    return std::string("E") + error.what();
  }
}

Outcome outcome_of(const Job& job, const Answer& answer) {
  if (!answer.death.empty()) return {{}, "the simulation " + answer.death};
  const std::string& text = answer.text;
  if (text.front() == 'F') return {{}, text.substr(1)};
  check(text.front() == 'R', "a simulation in a child process: " + text.substr(1));
  return {make_report(*job.program, *job.platform, "simgrid", describe(find_network_profile(job.options.network)),
                      unpack(text, *job.program)),
          ""};
}

}  // namespace

std::vector<Outcome> simulate_all(std::span<const Job> jobs, int num_processes,
                                  const std::function<void(std::size_t)>& ended) {
  for (const Job& job : jobs) find_network_profile(job.options.network);
  std::vector<Outcome> outcomes(jobs.size());
  std::size_t begun = 0, done = 0;
  Work work;
  work.next = [&] { return begun < jobs.size() ? std::optional(begun++) : std::nullopt; };
  work.run = [&](std::size_t job) { return answer(jobs[job]); };
  work.done = [&](std::size_t job, const Answer& said) {
    outcomes[job] = outcome_of(jobs[job], said);
    ++done;
    if (ended) ended(done);
  };
  run_in_workers(work, num_processes, Lifetime::one_job);
  return outcomes;
}

Report simulate_isolated(const Program& program, const Platform& platform, const SimulateOptions& options) {
  const Job job{&program, &platform, options};
  std::vector<Outcome> outcomes = simulate_all(std::span(&job, 1), 1);
  if (!outcomes[0].report) throw RuntimeFault(outcomes[0].fault);
  return std::move(*outcomes[0].report);
}

}  // namespace fusion::sim
