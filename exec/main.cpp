// fusion-exec: train a network as a plan says, on real devices.
#include <cstdlib>
#include <string_view>

#include "core/cli/program.h"
#include "exec/cli.h"
#include "exec/ending.h"
#include "exec/stop_signal.h"
#include "exec/transport_mpi.h"

namespace fusion::exec {
namespace {

/// Under mpirun all ranks write to one terminal.
int tell(const Ending& ending) {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return cli::tell_failure(rank == nullptr ? "fusion-exec" : std::string("fusion-exec, rank ") + rank, ending);
}

/// All ranks are given the same flags: one says what is wrong with them. Precondition: this process has not joined the
/// others yet.
int refuse(const std::string& message) {
  const Ending ending{ExitCode::usage, message};
  if (!launched_by_mpi() || !mpi_missing().empty()) return tell(ending);
  const auto transport = make_mpi_transport({.shapes = {}, .start = {.doing = "ending: " + message}});
  return transport->abort(ending.code, message) ? static_cast<int>(ending.code) : tell(ending);
}

int end(const std::exception& error) {
  if (const auto* told = dynamic_cast<const ToldByPeer*>(&error)) return static_cast<int>(told->code);
  return tell(ending_of(error));
}

cli::ProgramRow program() {
  return {
      .name = "fusion-exec",
      .description = "Train one network on the devices of a plan, joined by whatever network there is.",
      .footer =
          "Examples:\n"
          "  fusion-sim plan --model gpt2 --platform pair -o schedule.json\n"
          "  fusion-exec train --plan schedule.json --data text:book.txt --steps 10    all ranks as threads\n"
          "  fusion-exec launch --plan schedule.json -o run1 -- --data text:book.txt --steps 1000    how to start it "
          "with MPI\n"
          "Exit codes: 0 done, 2 usage, 3 bad input, 4 infeasible, 5 runtime fault, 6 peer lost.",
      .commands = {declare_train, declare_evaluate, declare_launch, declare_profile, declare_probe, declare_lists},
      .refuse = refuse,
      .end = end};
}

}  // namespace
}  // namespace fusion::exec

int main(int argc, char** argv) {
  using namespace fusion::exec;
  if (argc > 1 && std::string_view(argv[1]) == "train") catch_stop_signals();  // a job may be stopped before it is up
  return fusion::cli::run_program(program(), argc, argv);
}
