// One rank of a run over MPI, for the tests: mpirun … fusion-transport-rank VERB [OPTIONS]
//   suite               every transport case
//   shaped              the times of a shaped link (two ranks)
//   large BYTES         one message of so many bytes from rank 0 to rank 1
//   ring DIR [DEADLINE] messages around a ring until something fails; pids go to DIR/pid.RANK
//   busy DIR            as ring, but rank 0 computes and waits for nothing
//   stuck DIR           rank 1 does what may take a second, for ever; the others wait for it
//   abort CODE          rank 1 aborts, the others wait
//   absent DIR          rank 1 never joins
//   stopped DIR         rank 1 stops itself while it joins
//   end                 rank 1 ends in order, rank 0 waits for a message of it
//   handshake [VALUE]   rank 1 says that its model hash is VALUE
//   probe FILE          measures two shaped ranks, writes a platform
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <thread>

#include "core/base/file.h"
#include "exec/handshake.h"
#include "exec/probe.h"
#include "exec/transport_mpi.h"
#include "tests/support/transport_suite.h"

namespace fusion::exec {
namespace {

using Arguments = std::vector<std::string>;

void suite(Transport& t, const Arguments&) {
  for (const TransportCase& one : transport_cases()) {
    if (t.rank() == 0) std::cout << one.name << std::endl;
    one.run(t);
  }
}

void shaped(Transport& t, const Arguments&) { check_shaped_traffic(t, Seconds(0.01), Seconds(60)); }

void large(Transport& t, const Arguments& arguments) {
  const std::size_t bytes = std::stoull(arguments.at(0));
  if (t.rank() == 0) {
    std::vector<std::byte> message(bytes);
    for (std::size_t at = 0; at < bytes; at += 4096) message[at] = static_cast<std::byte>(at >> 12);
    message.back() = std::byte{77};
    t.send(1, {1, 0, 0}, std::move(message));
    t.flush();
  } else {
    const auto message = t.receive(0, {1, 0, 0}, "a large message");
    if (message.size() != bytes || message.back() != std::byte{77}) throw std::runtime_error("it arrived changed");
    for (std::size_t at = 0; at + 1 < bytes; at += 4096)
      if (message[at] != static_cast<std::byte>(at >> 12)) throw std::runtime_error("it arrived changed");
    std::cout << message.size() << " bytes in " << format(t.take_transfers().at(0).end) << "\n";
  }
}

void write_pid(int rank, const std::string& folder) {
  const std::string path = folder + "/pid." + std::to_string(rank);
  std::ofstream(path + ".tmp") << ::getpid() << "\n";
  std::rename((path + ".tmp").c_str(), path.c_str());
}

void ring(Transport& t, const Arguments& arguments) {
  if (arguments.size() > 1) t.set_deadline(Seconds(std::stod(arguments[1])));
  write_pid(t.rank(), arguments.at(0));
  const int n = t.num_ranks(), next = (t.rank() + 1) % n, previous = (t.rank() + n - 1) % n;
  for (std::int64_t i = 0;; ++i) {
    t.send(next, {1, 0, i}, std::vector<std::byte>(i % 5 == 0 ? 700'000 : 100));
    t.receive(previous, {1, 0, i}, "round " + std::to_string(i));
  }
}

void busy(Transport& t, const Arguments& arguments) {
  write_pid(t.rank(), arguments.at(0));
  if (t.rank() > 0) t.receive(0, {1, 0, 0}, "what never comes");
  volatile unsigned work = 0;
  while (t.now().value < 60) work = work + 1;
}

void stuck(Transport& t, const Arguments& arguments) {
  write_pid(t.rank(), arguments.at(0));
  if (t.rank() != 1) t.receive(1, {1, 0, 0}, "what never comes");
  t.begin_work("forward of micro-batch 3", Seconds(1));
  for (volatile unsigned work = 0;;) work = work + 1;
}

void abort(Transport& t, const Arguments& arguments) {
  if (t.rank() == 1) throw InputError("data.txt", "", "is empty");
  (void)arguments;
  t.receive(1, {1, 0, 0}, "x");
}

/// Rank 1 is not there, or is stopped, before MPI is up. The others never get here.
void not_started(Transport&, const Arguments&) { throw std::runtime_error("all ranks have joined"); }

void stay_away(std::string_view verb) {
  const int rank = launched_as().rank;
  if (verb == "absent" && rank == 1) std::this_thread::sleep_for(std::chrono::hours(1));
  if (verb == "stopped" && rank == 0) std::this_thread::sleep_for(std::chrono::seconds(1));  // MPI_Init waits for it
  if (verb != "stopped" || rank != 1) return;
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    ::raise(SIGSTOP);
  }).detach();
}

void end(Transport& t, const Arguments&) {
  if (t.rank() == 0) t.receive(1, {1, 0, 0}, "x");
}

void shake(Transport& t, const Arguments& arguments) {
  Identity identity{"1", "0.1.0", std::to_string(t.num_ranks()), "fp32", "abc", "def"};
  if (t.rank() == 1 && !arguments.empty()) identity.model_hash = arguments[0];
  handshake(t, identity);
}

void probe_ranks(Transport& t, const Arguments& arguments) {
  const ProbeResult result = probe(t);
  if (t.rank() == 0) write_text(arguments.at(0), probe_platform(result, {}));
}

struct Verb {
  std::string_view name;
  void (*run)(Transport&, const Arguments&);
};
constexpr std::array verbs = {Verb{"suite", suite},         Verb{"shaped", shaped},   Verb{"large", large},
                              Verb{"ring", ring},           Verb{"busy", busy},       Verb{"stuck", stuck},
                              Verb{"abort", abort},         Verb{"end", end},         Verb{"absent", not_started},
                              Verb{"stopped", not_started}, Verb{"handshake", shake}, Verb{"probe", probe_ranks}};

int report(const Transport& t, ExitCode code, const char* what) {
  std::cerr << "fusion-transport-rank: " + std::string(what) + " [rank " + std::to_string(t.rank()) + ", exit " +
                   std::to_string(static_cast<int>(code)) + "]\n";
  return static_cast<int>(code);
}

int run(const Verb& verb, const Arguments& arguments) {
  MpiOptions options;
  if (verb.name == "shaped" || verb.name == "probe") options.shapes = suite_shapes();
  if (verb.run == not_started) {
    options.start.silence = Seconds(1);
    options.start.limit = Seconds(3);
    write_pid(launched_as().rank, arguments.at(0));
    stay_away(verb.name);
  }
  options.watch_processes = std::getenv("FUSION_TEST_REMOTE") == nullptr;
  const auto transport = make_mpi_transport(options);
  try {
    verb.run(*transport, arguments);
    return 0;
  } catch (const PeerLost& error) {
    return report(*transport, ExitCode::peer_lost, error.what());
  } catch (const InputError& error) {
    transport->abort(ExitCode::bad_input, error.what());
    return report(*transport, ExitCode::bad_input, error.what());
  } catch (const std::exception& error) {
    transport->abort(ExitCode::runtime_fault, error.what());
    return report(*transport, ExitCode::runtime_fault, error.what());
  }
}

}  // namespace
}  // namespace fusion::exec

int main(int argc, char** argv) {
  using namespace fusion::exec;
  if (argc > 1)
    for (const Verb& verb : verbs)
      if (verb.name == argv[1]) return run(verb, Arguments(argv + 2, argv + argc));
  std::cerr << "usage: fusion-transport-rank VERB [OPTIONS]\n";
  return 2;
}
