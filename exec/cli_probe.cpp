// fusion-exec probe: what the network between the ranks gives.
#include <memory>

#include "core/base/error.h"
#include "exec/cli.h"
#include "exec/ending.h"
#include "exec/probe.h"
#include "exec/transport_mpi.h"

namespace fusion::exec {
namespace {

struct Options {
  Output output;
  std::string to;
  ImportOptions import;
  ProbeOptions probe;
};

Table table_of(const ProbeResult& result) {
  Table table({{"from"}, {"to"}, {"latency", Align::right}, {"bandwidth", Align::right}});
  for (const ProbedLink& link : result.links)
    table.add({result.names[static_cast<std::size_t>(link.from)], result.names[static_cast<std::size_t>(link.to)],
               format(link.latency), format(link.bandwidth)});
  return table;
}

void probe_network(const Options& options) {
  if (!launched_by_mpi())
    throw InputError("", "probe", "measures the network between ranks; start it as: mpirun -np N fusion-exec probe");
  const auto transport = make_mpi_transport();
  ProbeResult result;
  run_or_abort(*transport, [&] {
    if (transport->num_ranks() < 2) throw InputError("", "probe", "one rank has no network; start two or more");
    if (transport->rank() == 0) cli::require_writable({options.to});
    result = probe(*transport, options.probe);
  });
  if (transport->rank() != 0) return;
  print(table_of(result));
  cli::write(options.output, {{options.to, [&] { return probe_platform(result, options.import); }, ""}});
}

}  // namespace

void declare_probe(CLI::App& app) {
  CLI::App* command = app.add_subcommand("probe", "measure latency and bandwidth between all ranks of an MPI run");
  const auto options = std::make_shared<Options>();
  command->add_option("-o,--output", options->to, "platform.toml to write")->type_name("FILE");
  command->add_option("--name", options->import.name, "of the platform")->capture_default_str()->type_name("NAME");
  command->add_option("--gpu", options->import.gpu, "GPU type of every rank")->capture_default_str()->type_name("NAME");
  command
      ->add_option("--repeats", options->probe.repeats, "measurements of the bandwidth of each pair; the median counts")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  add_quiet_flag(*command, options->output);
  command->footer(
      "Example:\n"
      "  mpirun -np 4 --hostfile hosts fusion-exec probe --gpu \"RTX 3090\" -o platform.toml");
  command->callback([options] { probe_network(*options); });
}

}  // namespace fusion::exec
