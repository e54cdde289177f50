// Ranks that are MPI processes. All of MPI stands in transport_mpi*.cpp; where the build has no MPI,
// transport_no_mpi.cpp stands in for it.
//
// One thread owns every MPI call, from MPI_Init to MPI_Finalize; it is fed by queues and tests for progress between
// short sleeps, so that messages travel while a rank computes. A second thread (transport_guard.h) never calls MPI.
//
// After a wait has thrown, the process must end, without another call: return the exit code from main. If it has not
// ended by itself after a moment, or computes and waits for nothing, it is ended with that code.
#pragma once

#include <memory>
#include <string>

#include "exec/transport.h"
#include "exec/transport_start.h"

namespace fusion::exec {

struct MpiOptions {
  LinkShapes shapes;            ///< of the links to pretend; empty: none
  StartOptions start = {};      ///< how long a rank may be silent, and a start take
  bool watch_processes = true;  ///< false: as if every peer were on another machine (tests)
};

/// Why this build has no MPI; "" where it has.
std::string mpi_missing();

/// Joins the run that a launcher started; once per process. Collective. Its clock is that of rank 0. Destroying it is
/// collective too, and waits until all ranks do so, unless the run has failed. Throws InputError where there is no MPI,
/// or the shapes are not those of so many ranks.
std::unique_ptr<Transport> make_mpi_transport(const MpiOptions& = {});

/// Whether a launcher started this process (mpirun, or a batch system that speaks PMI).
bool launched_by_mpi();

}  // namespace fusion::exec
