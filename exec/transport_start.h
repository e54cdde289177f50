// Watches ranks while they start: from before MPI_Init, which waits for ever where a rank is absent, until all have
// joined. It calls no MPI.
//
// Ranks of one machine hear each other meanwhile by datagrams (Unix sockets of the abstract space, named after the
// launcher's job), each with what it does. Of ranks on other machines nothing is known until MPI is up.
#pragma once

#include <memory>
#include <string>

#include "core/base/units.h"

namespace fusion::exec {

struct StartOptions {
  std::string doing = "joining the other ranks";  ///< for the error
  Seconds silence{10};  ///< for which a rank that has been heard of may not be, while it starts
  Seconds limit{60};    ///< for the whole
};

/// What a launcher says of this process in its environment.
struct LaunchedAs {
  int rank = 0, num_ranks = 1;
  std::string job;  ///< "": not known
};
LaunchedAs launched_as();

/// A thread while it lives. Where a rank that it has heard of dies or falls silent, the launcher ends the job, or the
/// start takes too long, it ends the process with exit code 6 and a line that says what this rank did, and which others
/// it has not heard of. Destroying it says to the others that this rank has joined.
class StartWatch {
 public:
  StartWatch(const LaunchedAs&, const StartOptions&);
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;
  ~StartWatch();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fusion::exec
