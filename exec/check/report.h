// What the checker prints and writes.
#pragma once

#include <string>
#include <vector>

namespace fusion::exec {

/// Counts checks; prints those that fail.
class Checks {
 public:
  void expect(bool condition, const std::string& what);
  int done() const { return done_; }
  int failed() const { return failed_; }

 private:
  int done_ = 0, failed_ = 0;
};

/// A timed operation.
struct Timing {
  std::string name;
  double elements = 0;
  double ms = 0;
  double bytes = 0;    ///< that it must move through memory
  double of_read = 0;  ///< its bytes per second as a fraction of the plain read pass of that size in this run
};

void check_topk(Checks&, bool quick);
void check_sparse(Checks&, bool quick);
void check_quantise(Checks&, bool quick);
std::vector<Timing> measure(bool quick);

}  // namespace fusion::exec
