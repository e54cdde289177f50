#include "sim/progress.h"

#include <unistd.h>

#include <cstdio>

namespace fusion::sim {
namespace {
constexpr const char* clear_line = "\r\033[K";
}

Progress::Progress(std::size_t total, bool quiet) : total_(total), shown_(!quiet && ::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (shown_) std::fputs(clear_line, stderr);
}

void Progress::next(const std::string& what) {
  ++begun_;
  if (!shown_) return;
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
  const double left_s = spent.count() / static_cast<double>(begun_) * static_cast<double>(total_ - begun_);
  std::fprintf(stderr, "%s[%zu/%zu] %s", clear_line, begun_, total_, what.c_str());
  if (spent.count() > 2) std::fprintf(stderr, ", about %.0f s left", left_s);
}

}  // namespace fusion::sim
