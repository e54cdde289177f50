#include "sim/workers.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <system_error>
#include <vector>

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

std::string describe_end(int status) {
  if (WIFSIGNALED(status)) return std::string("was ended by a signal: ") + strsignal(WTERMSIG(status));
  return "ended with status " + std::to_string(WEXITSTATUS(status)) + " and no result";
}

/// A process that reads job numbers and answers each with the length of a text and the text.
class Worker {
 public:
  explicit Worker(const Work& work) {
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
      serve(jobs[0], answers[1], work);
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
    if (pid_ != 0) kill(pid_, SIGKILL), wait();
  }

  int file() const { return answers_; }
  std::size_t job() const { return job_; }

  void give(std::size_t job) {
    job_ = job;
    write_all(jobs_, &job, sizeof job);  // a worker that has died is seen at its other end
  }

  /// Reads what there is. The answer to its job once that is whole, or how the worker ended.
  std::optional<Answer> read_more() {
    std::array<char, 65536> buffer{};
    const ssize_t got = read(answers_, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) return {};
    if (got <= 0) return Answer{"", describe_end(wait())};
    text_.append(buffer.data(), static_cast<std::size_t>(got));
    std::size_t length = 0;
    if (text_.size() < sizeof length) return {};
    std::memcpy(&length, text_.data(), sizeof length);
    if (text_.size() < sizeof length + length) return {};
    Answer answer{text_.substr(sizeof length), ""};
    text_.clear();
    return answer;
  }

 private:
  /// An exception ends the worker: what a job may throw, `run` answers.
  static void serve(int jobs, int answers, const Work& work) noexcept {
    for (std::size_t job = 0; read_job(jobs, job);) {
      const std::string text = work.run(job);
      const std::size_t length = text.size();
      if (!write_all(answers, &length, sizeof length) || !write_all(answers, text.data(), length)) return;
    }
  }

  int wait() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    return status;
  }

  pid_t pid_ = 0;
  int jobs_ = -1, answers_ = -1;
  std::size_t job_ = 0;
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

using Workers = std::vector<std::unique_ptr<Worker>>;

/// Those that have something to say.
std::vector<std::size_t> wait_for_any(const Workers& workers) {
  std::vector<pollfd> files;
  for (const auto& worker : workers) files.push_back({worker->file(), POLLIN, 0});
  if (poll(files.data(), files.size(), -1) < 0 && errno != EINTR) throw_errno("poll");
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < files.size(); ++i)
    if (files[i].revents != 0) ready.push_back(i);
  return ready;
}

}  // namespace

void run_in_workers(const Work& work, int num_workers, Lifetime lifetime) {
  const NoSigpipe guard;
  const auto wanted = static_cast<std::size_t>(std::max(num_workers, 1));
  Workers workers;
  // A place that is free takes the next job; a worker that can't go on makes place for another.
  const auto hire = [&] {
    const auto job = work.next();
    if (!job) return false;
    workers.push_back(std::make_unique<Worker>(work));
    workers.back()->give(*job);
    return true;
  };
  while (workers.size() < wanted && hire()) {
  }
  while (!workers.empty()) {
    std::size_t places = 0;
    for (std::size_t i : wait_for_any(workers)) {
      const std::optional<Answer> answer = workers[i]->read_more();
      if (!answer) continue;
      const std::size_t job = workers[i]->job();
      const bool goes_on = answer->death.empty() && lifetime == Lifetime::many_jobs;
      if (!goes_on) workers[i].reset();
      work.done(job, *answer);
      if (!goes_on) continue;
      if (const auto next = work.next())
        workers[i]->give(*next);
      else
        workers[i].reset();
    }
    places = static_cast<std::size_t>(std::erase(workers, nullptr));
    while (places > 0 && hire()) --places;
  }
}

}  // namespace fusion::sim
