#include "tests/support/mpi_job.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

#include "exec/launch_flags.h"

namespace fusion::exec {
namespace {

using namespace std::chrono_literals;

/// Notes the exit code, and when, of what it runs. SIGTERM is for the rank alone.
constexpr const char* wrapper =
    "trap '' TERM; folder=$1; shift; \"$@\"; code=$?; echo $code $(date +%s.%N) > $folder/exit.$OMPI_COMM_WORLD_RANK; "
    "exit "
    "$code";

bool runs(int pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(stat, text)) return false;
  return text.at(text.rfind(')') + 2) != 'Z';  // a zombie has ended
}

template <class Number>
std::optional<Number> number_in(const std::filesystem::path& file) {
  std::ifstream stream(file);
  Number number{};
  if (stream >> number) return number;
  return {};
}

}  // namespace

MpiJob::MpiJob(int num_ranks, std::vector<std::string> command, std::vector<std::string> more_flags)
    : num_ranks_(num_ranks) {
  std::vector<std::string> words = {"mpirun", "-np", std::to_string(num_ranks), oversubscribe_flag};
  if (::geteuid() == 0) words.push_back(root_flag);
  for (auto& flag : mpirun_flags(num_ranks)) words.push_back(flag);
  words.insert(words.end(), more_flags.begin(), more_flags.end());
  words.insert(words.end(), {"sh", "-c", wrapper, "sh", folder().string()});
  words.insert(words.end(), command.begin(), command.end());
  std::vector<char*> arguments;
  for (auto& word : words) {
    constexpr std::string_view place = "{folder}";
    if (word.starts_with(place)) word.replace(0, place.size(), folder().string());
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  const std::string output = folder() / "output";
  mpirun_ = ::fork();
  if (mpirun_ == 0) {
    const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    ::dup2(file, 1);
    ::dup2(file, 2);
    ::execvp("mpirun", arguments.data());
    ::_exit(127);
  }
}

MpiJob::~MpiJob() {
  if (mpirun_ > 0) wait(0s);
  for (const int pid : orphans()) ::kill(pid, SIGKILL);
}

std::vector<int> MpiJob::pids() {
  for (int tries = 0; tries < 6000 && static_cast<int>(pids_.size()) < num_ranks_; ++tries) {
    const auto pid = number_in<int>(folder() / ("pid." + std::to_string(pids_.size())));
    if (pid)
      pids_.push_back(*pid);
    else
      std::this_thread::sleep_for(10ms);
  }
  if (static_cast<int>(pids_.size()) < num_ranks_) throw std::runtime_error("the ranks do not start:\n" + output());
  return pids_;
}

int MpiJob::wait(std::chrono::seconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  int status = 0;
  while (::waitpid(mpirun_, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > until) {
      const auto codes = exit_codes();
      ::kill(mpirun_, SIGTERM);
      for (int tries = 0; tries < 1000 && ::waitpid(mpirun_, &status, WNOHANG) == 0; ++tries)
        std::this_thread::sleep_for(10ms);
      ::kill(mpirun_, SIGKILL);
      ::waitpid(mpirun_, &status, 0);
      mpirun_ = -1;
      return std::ranges::all_of(codes, [](const auto& code) { return code.has_value(); }) ? mpirun_hung : -1;
    }
    std::this_thread::sleep_for(5ms);
  }
  mpirun_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string MpiJob::output() const {
  std::ostringstream text;
  text << std::ifstream(folder() / "output").rdbuf();
  return text.str();
}

std::vector<std::optional<int>> MpiJob::exit_codes() const {
  std::vector<std::optional<int>> codes;
  for (int rank = 0; rank < num_ranks_; ++rank)
    codes.push_back(number_in<int>(folder() / ("exit." + std::to_string(rank))));
  return codes;
}

std::vector<std::optional<double>> MpiJob::exit_times_s() const {
  std::vector<std::optional<double>> times(static_cast<std::size_t>(num_ranks_));
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    std::ifstream file(folder() / ("exit." + std::to_string(rank)));
    int code = 0;
    double time_s = 0;
    if (file >> code >> time_s) times[rank] = time_s;
  }
  return times;
}

std::vector<int> MpiJob::orphans() {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < pids_.size(); ++rank)
    if (runs(pids_[rank])) ranks.push_back(pids_[rank]);
  return ranks;
}

}  // namespace fusion::exec
