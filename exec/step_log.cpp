#include "exec/step_log.h"

#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "core/base/file.h"

namespace fusion::exec {
namespace {

/// A run that was killed may have left half a line.
bool ends_in_a_line(const std::string& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in || in.tellg() <= 0) return true;
  in.seekg(-1, std::ios::end);
  return in.get() == '\n';
}

}  // namespace

StepLog::StepLog(std::string file, bool append, StepFigures figures, std::function<void(const std::string&)> say)
    : file_(std::move(file)), append_(append), figures_(std::move(figures)), say_(std::move(say)) {
  if (!file_.empty()) require_writable(file_);
}

void StepLog::open() {
  const bool torn = append_ && is_replaceable(file_) && !ends_in_a_line(file_);
  out_.open(file_, append_ ? std::ios::app : std::ios::trunc);
  if (torn) out_ << '\n';
}

void StepLog::operator()(const StepSummary& step) {
  say_(line_of(step, figures_));
  if (file_.empty() || !failure_.empty()) return;
  if (!out_.is_open()) open();
  errno = 0;
  if (out_ << json_of(step, figures_) << std::endl) return;
  failure_ = file_ + ": can't be written any more: " + std::strerror(errno);
  say_("warning: " + failure_ + "; training goes on without it");
}

void StepLog::finish() const {
  if (!failure_.empty()) throw RuntimeFault(failure_);
}

}  // namespace fusion::exec
