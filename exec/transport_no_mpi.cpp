// Stands in for transport_mpi.cpp where the build found no MPI.
#include "exec/transport_mpi.h"
#include "exec/transport_mpi_thread.h"

namespace fusion::exec {

std::string mpi_missing() {
  return "built without MPI: none was found when it was configured (Debian: libopenmpi-dev, openmpi-bin)";
}

void run_mpi_thread(std::promise<Joined>) { check(false, "make_mpi_transport refuses before"); }

}  // namespace fusion::exec
