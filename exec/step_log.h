// The lines of a training run: each step told to the user and, where asked, appended to a file of JSON lines.
#pragma once

#include <fstream>
#include <functional>
#include <string>

#include "exec/train_log.h"

namespace fusion::exec {

class StepLog {
 public:
  /// `file` may be empty. Throws what require_writable does. What stands in the file stays until the first line comes,
  /// and then goes, or is gone on from where `append`.
  StepLog(std::string file, bool append, StepFigures, std::function<void(const std::string&)> say);

  /// A file that can't be written any more is told once: training is worth more than its log.
  void operator()(const StepSummary&);
  /// Throws RuntimeFault where a line is missing in the file.
  void finish() const;

 private:
  void open();
  std::string file_;
  bool append_;
  StepFigures figures_;
  std::function<void(const std::string&)> say_;
  std::ofstream out_;
  std::string failure_;
};

}  // namespace fusion::exec
