// What mpirun must be told (Open MPI 4.1), for the launch lines that the product prints and for its tests.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace fusion::exec {

/// For every run:
///   --bind-to none                a rank has a thread that computes and one that communicates
///   --mca mpi_yield_when_idle 1   ranks that wait inside MPI leave their core to others
///   --mca btl_tcp_…               chunks leave at once; a rendezvous would cost a round trip for each
///   --mca odls_base_sigkill_timeout T   see sigkill_timeout
/// Not --enable-recovery: with it a frozen rank is never ended, and mpirun says 0 after a death. Without it mpirun ends
/// what is left of a job as soon as one rank has ended badly, and says the exit code of the first that did.
/// The printer adds: -np, --timeout SECONDS, --hostfile, --mca btl_tcp_if_include INTERFACE.
inline std::vector<std::string> mpirun_flags(int ranks_per_host);

/// When a rank has died, mpirun waits T s, sends SIGTERM, waits T s, sends SIGKILL; but every other rank of the host
/// that ends meanwhile cuts up to a second off (it sleeps in whole seconds, and SIGCHLD wakes it). So that the last
/// survivor can end by itself too, 2 T is more than the ranks of a host.
inline int sigkill_timeout(int ranks_per_host) { return std::max(2, ranks_per_host / 2 + 1); }

inline std::vector<std::string> mpirun_flags(int ranks_per_host) {
  return {"--bind-to",
          "none",
          "--mca",
          "mpi_yield_when_idle",
          "1",
          "--mca",
          "btl_tcp_eager_limit",
          "4194304",
          "--mca",
          "btl_tcp_rndv_eager_limit",
          "4194304",
          "--mca",
          "btl_tcp_max_send_size",
          "4194304",
          "--mca",
          "odls_base_sigkill_timeout",
          std::to_string(sigkill_timeout(ranks_per_host))};
}

/// Where ranks exceed the cores that the hosts offer, and where the user is root.
inline const std::string oversubscribe_flag = "--oversubscribe", root_flag = "--allow-run-as-root";

}  // namespace fusion::exec
