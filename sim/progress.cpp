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
  if (shown_) std::fprintf(stderr, "%s[%zu/%zu] %s", clear_line, begun_, total_, what.c_str());
}

}  // namespace fusion::sim
