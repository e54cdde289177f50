#include "sim/workers.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace fusion::sim {
namespace {

[[noreturn]] void throw_errno(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

/// All of it, or false where the other end is gone.
bool write_all(int file, const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = write(file, at, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

bool read_job(int file, std::size_t& job) {
  char* at = reinterpret_cast<char*>(&job);
  std::size_t left = sizeof job;
  while (left > 0) {
    const ssize_t got = read(file, at, left);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    left -= static_cast<std::size_t>(got);
  }
  return true;
}

/// A process that reads job numbers and writes an answer line for each.
class Worker {
 public:
  explicit Worker(const std::function<std::string(std::size_t)>& work) {
    std::array<int, 2> jobs{}, answers{};
    if (pipe(jobs.data()) != 0 || pipe(answers.data()) != 0) throw_errno("pipe");
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) throw_errno("fork");
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(0);
      close(jobs[1]);
      close(answers[0]);
      for (std::size_t job = 0; read_job(jobs[0], job);) {
        const std::string line = work(job) + "\n";
        if (!write_all(answers[1], line.data(), line.size())) break;
      }
      _exit(0);  // no destructors, no flushing of the parent's streams
    }
    close(jobs[0]);
    close(answers[1]);
    jobs_ = jobs[1];
    answers_ = answers[0];
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    close(jobs_);
    close(answers_);
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  int file() const { return answers_; }
  std::optional<std::size_t> job() const { return job_; }

  void give(std::size_t job) {
    job_ = job;
    write_all(jobs_, &job, sizeof job);  // a worker that has died is seen at its other end
  }

  /// Reads what there is. Returns whether the worker still lives; `answer` gets its line once that is whole.
  bool read_more(std::optional<std::string>& answer) {
    std::array<char, 65536> buffer{};
    const ssize_t got = read(answers_, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) return true;
    if (got <= 0) return false;
    text_.append(buffer.data(), static_cast<std::size_t>(got));
    if (text_.back() != '\n') return true;
    text_.pop_back();
    answer = std::exchange(text_, "");
    job_.reset();
    return true;
  }

 private:
  pid_t pid_ = 0;
  int jobs_ = -1, answers_ = -1;
  std::optional<std::size_t> job_;
  std::string text_;
};

/// A write to a worker that has died is an error to look at, not the end of this process.
class NoSigpipe {
 public:
  NoSigpipe() : before_(std::signal(SIGPIPE, SIG_IGN)) {}
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;
  ~NoSigpipe() { std::signal(SIGPIPE, before_); }

 private:
  void (*before_)(int);
};

}  // namespace

void run_in_workers(std::size_t num_jobs, int num_workers, const std::function<std::string(std::size_t)>& work,
                    const std::function<void(std::size_t, const std::string&)>& done) {
  const NoSigpipe guard;
  std::vector<std::unique_ptr<Worker>> workers;
  std::size_t next = 0;
  const auto hire = [&] {
    workers.push_back(std::make_unique<Worker>(work));
    workers.back()->give(next++);
  };
  const auto wanted = static_cast<std::size_t>(std::max(num_workers, 1));
  while (next < num_jobs && workers.size() < wanted) hire();
  while (!workers.empty()) {
    std::vector<pollfd> files;
    for (const auto& worker : workers) files.push_back({worker->file(), POLLIN, 0});
    if (poll(files.data(), files.size(), -1) < 0 && errno != EINTR) throw_errno("poll");
    for (std::size_t i = files.size(); i-- > 0;) {
      if (files[i].revents == 0) continue;
      Worker& worker = *workers[i];
      const std::size_t job = *worker.job();
      std::optional<std::string> answer;
      const bool lives = worker.read_more(answer);
      if (lives && !answer) continue;
      done(job, answer.value_or(""));
      if (lives && next < num_jobs) {
        worker.give(next++);
        continue;
      }
      workers.erase(workers.begin() + static_cast<std::ptrdiff_t>(i));
      if (next < num_jobs) hire();
    }
  }
}

}  // namespace fusion::sim
