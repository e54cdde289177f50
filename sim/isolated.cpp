// Simulations in forked children, since SimGrid allows one engine per process. A child sends back one letter and what
// follows from it: 'R' and what was measured, 'F' and the text of a RuntimeFault, 'E' and that of any other exception.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "core/base/error.h"
#include "sim/simulate.h"

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

[[noreturn]] void throw_errno(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

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

void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;  // the parent is gone: nobody is left to tell
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// One simulation on its way.
class Child {
 public:
  explicit Child(const Job& job) : job_(job) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) throw_errno("pipe");
    pid_ = fork();
    if (pid_ < 0) throw_errno("fork");
    if (pid_ == 0) {
      close(ends[0]);
      write_all(ends[1], answer(job));
      _exit(0);  // no destructors, no flushing of the parent's streams
    }
    close(ends[1]);
    file_ = ends[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { close(file_); }

  int file() const { return file_; }

  /// Reads what there is; false once the child has said everything.
  bool read_more() {
    std::array<char, 65536> buffer{};
    const ssize_t got = read(file_, buffer.data(), buffer.size());
    if (got < 0 && errno != EINTR) throw_errno("read");
    if (got > 0) text_.append(buffer.data(), static_cast<std::size_t>(got));
    return got != 0;
  }

  Outcome outcome() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0)
      if (errno != EINTR) throw_errno("waitpid");
    if (WIFSIGNALED(status))
      return {{}, std::string("the simulation was ended by a signal: ") + strsignal(WTERMSIG(status))};
    if (WEXITSTATUS(status) != 0 || text_.empty())
      return {{}, "the simulation ended with status " + std::to_string(WEXITSTATUS(status)) + " and no result"};
    if (text_.front() == 'F') return {{}, text_.substr(1)};
    check(text_.front() == 'R', "a simulation in a child process: " + text_.substr(1));
    return {make_report(*job_.program, *job_.platform, "simgrid", describe(find_network_profile(job_.options.network)),
                        unpack(text_, *job_.program)),
            ""};
  }

 private:
  Job job_;
  pid_t pid_ = 0;
  int file_ = -1;
  std::string text_;
};

/// Waits until at least one child has something to say, and takes it. Children that have said everything are moved to
/// `outcomes`.
std::size_t collect(std::vector<std::pair<std::size_t, std::unique_ptr<Child>>>& running,
                    std::vector<Outcome>& outcomes) {
  std::vector<pollfd> files;
  for (const auto& [index, child] : running) files.push_back({child->file(), POLLIN, 0});
  if (poll(files.data(), files.size(), -1) < 0 && errno != EINTR) throw_errno("poll");
  std::size_t ended = 0;
  for (std::size_t i = files.size(); i-- > 0;) {
    if (files[i].revents == 0 || running[i].second->read_more()) continue;
    outcomes[running[i].first] = running[i].second->outcome();
    running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
    ++ended;
  }
  return ended;
}

}  // namespace

std::vector<Outcome> simulate_all(std::span<const Job> jobs, int num_processes,
                                  const std::function<void(std::size_t)>& ended) {
  for (const Job& job : jobs) find_network_profile(job.options.network);
  std::vector<Outcome> outcomes(jobs.size());
  std::vector<std::pair<std::size_t, std::unique_ptr<Child>>> running;
  std::size_t next = 0, done = 0;
  while (done < jobs.size()) {
    while (next < jobs.size() && running.size() < static_cast<std::size_t>(std::max(num_processes, 1))) {
      running.emplace_back(next, std::make_unique<Child>(jobs[next]));
      ++next;
    }
    for (std::size_t i = collect(running, outcomes); i > 0; --i) {
      ++done;
      if (ended) ended(done);
    }
  }
  return outcomes;
}

Report simulate_isolated(const Program& program, const Platform& platform, const SimulateOptions& options) {
  const Job job{&program, &platform, options};
  std::vector<Outcome> outcomes = simulate_all(std::span(&job, 1), 1);
  if (!outcomes[0].report) throw RuntimeFault(outcomes[0].fault);
  return std::move(*outcomes[0].report);
}

}  // namespace fusion::sim
