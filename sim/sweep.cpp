#include "sim/sweep.h"

#include <chrono>
#include <deque>
#include <map>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/base/file.h"
#include "sim/journal.h"
#include "sim/sweep_row.h"
#include "sim/workers.h"

namespace fusion::sim {
namespace {

void make_directory(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw InputError(directory.string(), "", "can't be made: " + error.message());
}

std::uint64_t number_of(const SetUp& of) { return std::stoull(of.id, nullptr, 16); }

/// One process's part in a sweep.
class Sweep {
 public:
  Sweep(const std::vector<SetUp>& all, const std::filesystem::path& directory,
        const std::function<void(const SetUp&)>& ended)
      : all_(all), ended_(ended), journal_(directory / "journal.jsonl") {
    look(Ending::finished);
    std::set<std::string> seen;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool is_new = seen.insert(all[i].id).second;
      if (is_new && !rows_.contains(all[i].id))
        open_.push_back(i);
      else
        ended_(all[i]);  // done before, or it stands twice
    }
  }

  bool has_work() const { return !open_.empty(); }

  /// Until every set-up has ended, here or in another process. What a process had that died is taken over.
  void run(int num_workers) {
    Work work;
    work.next = [&] { return claim(); };
    work.run = [&](std::size_t job) { return run_set_up(all_[job]); };
    work.done = [&](std::size_t job, const Answer& answer) { keep(all_[job], answer); };
    for (; has_work(); std::swap(open_, elsewhere_)) {
      run_in_workers(work, num_workers);
      if (!elsewhere_.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  std::vector<std::string> in_order() const {
    std::vector<std::string> rows;
    for (const SetUp& each : all_) rows.push_back(rows_.at(each.id));
    return rows;
  }

 private:
  /// Takes in what others have written. A crash counts where it happened during this sweep.
  void look(Ending least) {
    for (std::string& line : journal_.read_new())
      if (const ReadRow row = read_row(line); row.ending >= least) rows_[row.id] = std::move(line);
  }

  /// The next set-up that nobody has done and nobody else is at.
  std::optional<std::size_t> claim() {
    for (; !open_.empty(); open_.pop_front()) {
      const std::size_t job = open_.front();
      const SetUp& of = all_[job];
      if (!rows_.contains(of.id)) {
        if (!journal_.claim(number_of(of))) {
          elsewhere_.push_back(job);
          continue;
        }
        look(Ending::crash);
        if (!rows_.contains(of.id)) {
          open_.pop_front();
          return job;
        }
        journal_.release(number_of(of));
      }
      ended_(of);
    }
    return {};
  }

  void keep(const SetUp& of, const Answer& answer) {
    rows_[of.id] = answer.death.empty() ? answer.text : crash_row(of, answer.death);
    journal_.append(rows_[of.id]);
    journal_.release(number_of(of));
    ended_(of);
  }

  const std::vector<SetUp>& all_;
  const std::function<void(const SetUp&)>& ended_;
  Journal journal_;
  std::map<std::string, std::string> rows_;  ///< by id
  std::deque<std::size_t> open_;             ///< to look at, in the order of the grid
  std::deque<std::size_t> elsewhere_;        ///< other processes were at them when last looked at
};

}  // namespace

std::vector<std::string> sweep(const std::vector<SetUp>& all, const std::filesystem::path& directory, int num_workers,
                               const std::function<void(const SetUp&)>& ended) {
  make_directory(directory / "configs");
  for (const char* file : {"journal.jsonl", "results.jsonl", "results.csv"}) require_writable(directory / file);
  for (const SetUp& each : all)
    if (const auto config = directory / "configs" / (each.id + ".toml"); !std::filesystem::exists(config))
      write_text(config, all_options(each));
  Sweep part(all, directory, ended);
  if (part.has_work())  // those of an earlier grid must not be taken for this one's
    for (const char* name : {"results.jsonl", "results.csv"}) std::filesystem::remove(directory / name);
  part.run(num_workers);
  const std::vector<std::string> rows = part.in_order();
  std::string text;
  for (const std::string& row : rows) text += row + "\n";
  write_text(directory / "results.jsonl", text);  // by each process, the same bytes
  write_text(directory / "results.csv", csv_of(rows));
  return rows;
}

}  // namespace fusion::sim
