#include "exec/launch.h"

#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>

#include "exec/launch_flags.h"

namespace fusion::exec {
namespace {

std::string quoted(const std::string& word) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

std::string joined(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + quoted(word);
  return line;
}

/// Ranks by host, in the order of their first rank.
std::vector<std::pair<std::string, std::size_t>> slots_of(const Launch& launch) {
  std::vector<std::pair<std::string, std::size_t>> slots;
  for (const std::string& host : launch.hosts) {
    const auto known = std::ranges::find(slots, host, &std::pair<std::string, std::size_t>::first);
    known == slots.end() ? void(slots.emplace_back(host, 1)) : void(++known->second);
  }
  return slots;
}

std::size_t most_ranks_on_a_host(const Launch& launch) {
  std::size_t most = launch.hosts.empty() ? launch.num_ranks : 1;
  for (const auto& [host, ranks] : slots_of(launch)) most = std::max(most, ranks);
  return most;
}

std::vector<std::string> mpirun_words(const Launch& launch, const std::string& hostfile) {
  std::vector<std::string> words = {"mpirun", "-np", std::to_string(launch.num_ranks), "--timeout",
                                    std::to_string(launch.timeout_s)};
  // By itself mpirun fills the host it was started on first, wherever that stands in the file.
  if (!hostfile.empty()) words.insert(words.end(), {"--hostfile", hostfile, "--map-by", "seq"});
  for (std::string& flag : mpirun_flags(static_cast<int>(most_ranks_on_a_host(launch))))
    words.push_back(std::move(flag));
  if (!launch.interface.empty()) words.insert(words.end(), {"--mca", "btl_tcp_if_include", launch.interface});
  if (most_ranks_on_a_host(launch) > launch.cores) words.push_back(oversubscribe_flag);
  if (launch.as_root) words.push_back(root_flag);
  words.push_back(launch.program);
  words.insert(words.end(), launch.arguments.begin(), launch.arguments.end());
  return words;
}

/// Whether a BLAS that this process has loaded is the reference one: Debian's alternatives point to its folder.
bool loaded_reference_blas() {
  bool found = false;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        const std::filesystem::path library = info->dlpi_name;
        if (!library.filename().string().starts_with("libblas.so")) return 0;
        std::error_code ignored;
        const std::string real = std::filesystem::canonical(library, ignored).string();
        if (real.find("/blas/libblas") != std::string::npos) *static_cast<bool*>(result) = true;
        return 0;
      },
      &found);
  return found;
}

std::size_t number_in(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::strtoul(text, nullptr, 10);
}

bool is_set(const char* variable, const char* value = nullptr) {
  const char* text = std::getenv(variable);
  return text != nullptr && (value == nullptr || std::string_view(text) == value);
}

constexpr const char* blas_warning =
    "warning: libtorch runs on reference BLAS, some 20 times slower than it could; install libopenblas0-pthread";
constexpr const char* interface_warning =
    "warning: several machines, and MPI chooses the network interfaces itself; pin them with --mca btl_tcp_if_include";

}  // namespace

std::string mpirun_line(const Launch& launch, const std::string& hostfile) {
  return joined(mpirun_words(launch, launch.hosts.empty() ? "" : hostfile));
}

std::string hostfile_of(const Launch& launch) {
  std::string text;
  for (const std::string& host : launch.hosts) text += host + "\n";
  return text;
}

namespace {

/// mpirun itself ends a job within a second of SIGTERM or SIGINT, but passes SIGUSR1 on: so the script translates, and
/// the end of its terminal too. setsid keeps the terminal's Ctrl-C from mpirun; so that kill -9 of the script does end
/// the job, a second process looks each second whether the script is still its parent. It also ends an mpirun that has
/// outlived its ranks by ten seconds: once, that of Open MPI 4.1.4 was seen to wait for itself after a failed start.
std::string translated(const std::string& line) {
  return "setsid " + line +
         " \"$@\" &\n"
         "run=$!\n"
         "setsid sh -c 'had= alone=0\n"
         "  while read -r _ _ _ parent _ </proc/$$/stat && [ \"$parent\" = \"$1\" ]; do\n"
         "    children=$(cat /proc/\"$2\"/task/*/children)\n"
         "    [ -n \"$children\" ] && had=yes alone=0 || alone=$((alone + 1))\n"
         "    [ -z \"$had\" ] || [ $alone -lt 10 ] || kill -KILL \"$2\"\n"
         "    sleep 1\n"
         "  done\n"
         "  kill -TERM \"$2\"' watch $$ $run </dev/null >/dev/null 2>&1 &\n"
         "watch=$!\n"
         "started=$(date +%s)\n"
         "ask() {  # not at once: a rank whose libraries are still being loaded would die; again: mpirun may not be "
         "up\n"
         "  [ -n \"$asked\" ] || {\n"
         "    [ $(($(date +%s) - started)) -ge 5 ] || sleep 3\n"
         "    while kill -USR1 $run; do sleep 10; done\n"
         "  } </dev/null >/dev/null 2>&1 &\n"
         "  asked=${asked:-$!}\n"
         "}\n"
         "asked=\n"
         "trap ask TERM INT HUP USR1\n"
         "wait $run\n"
         "code=$?\n"
         "while kill -0 $run 2>/dev/null; do wait $run; code=$?; done\n"
         "kill $watch $asked 2>/dev/null\n"
         "exit $code\n";
}

std::string in_directory(const Launch& launch) {
  return launch.directory.empty() ? "" : "cd -- " + quoted(launch.directory) + " || exit 3\n";
}

}  // namespace

std::string run_script(const Launch& launch, const std::string& hostfile) {
  return "#!/bin/sh\n"
         "# Written by fusion-exec launch. SIGTERM, SIGINT (Ctrl-C), SIGHUP and SIGUSR1 end the run after its step, "
         "with a "
         "checkpoint.\n" +
         in_directory(launch) + translated(mpirun_line(launch, hostfile));
}

std::string sbatch_script(const Launch& launch) {
  constexpr long minute = 60, most_warning = 120;
  Launch inside = launch;
  inside.as_root = false;
  inside.hosts.clear();
  inside.cores = launch.num_ranks;  // Slurm gives cores to each
  const long minutes = (launch.timeout_s + minute - 1) / minute;
  // Slurm counts back from the end of the job, which comes after mpirun's.
  const long warning = minutes * minute - launch.timeout_s + std::min(most_warning, launch.timeout_s / 2);
  std::string text =
      "#!/bin/bash\n"
      "# Written by fusion-exec launch: sbatch job.sbatch\n"
      "#SBATCH --job-name=fusion-exec\n"
      "#SBATCH --ntasks=" +
      std::to_string(launch.num_ranks) +
      "\n"
      "#SBATCH --cpus-per-task=2   # one computes, one communicates\n"
      "#SBATCH --time=" +
      std::to_string(minutes) + "\n#SBATCH --signal=B:USR1@" + std::to_string(warning) + "\n";
  if (launch.hosts.empty()) return text + in_directory(launch) + translated(mpirun_line(inside, ""));
  std::string nodes, lines;
  for (const auto& [host, ranks] : slots_of(launch)) nodes += (nodes.empty() ? "" : ",") + host;
  for (const std::string& host : launch.hosts) lines += host + "\n";
  text += "#SBATCH --nodes=" + std::to_string(slots_of(launch).size()) + "\n#SBATCH --nodelist=" + nodes + "\n";
  // Slurm may spread its tasks over the hosts in another way: the lines decide.
  std::string line = mpirun_line(inside, "");
  line.insert(std::string_view("mpirun").size(), " --hostfile \"$hosts\" --map-by seq " + oversubscribe_flag);
  return text + in_directory(launch) + "hosts=$(mktemp)\ntrap 'rm -f \"$hosts\"' EXIT\ncat >\"$hosts\" <<'end'\n" +
         lines + "end\n" + translated(line);
}

std::vector<std::string> preflight() {
  std::vector<std::string> warnings;
  if (loaded_reference_blas()) warnings.emplace_back(blas_warning);
  const std::size_t here = number_in("OMPI_COMM_WORLD_LOCAL_SIZE"), all = number_in("OMPI_COMM_WORLD_SIZE");
  if (here > std::thread::hardware_concurrency() && !is_set("OMPI_MCA_mpi_yield_when_idle", "1"))
    warnings.push_back("warning: " + std::to_string(here) + " ranks on " +
                       std::to_string(std::thread::hardware_concurrency()) +
                       " cores, and those that wait don't yield; start with --mca mpi_yield_when_idle 1");
  if (here < all && !is_set("OMPI_MCA_btl_tcp_if_include")) warnings.emplace_back(interface_warning);
  return warnings;
}

std::vector<std::string> preflight(const Launch& launch) {
  std::vector<std::string> warnings;
  if (loaded_reference_blas()) warnings.emplace_back(blas_warning);
  if (slots_of(launch).size() > 1 && launch.interface.empty()) warnings.emplace_back(interface_warning);
  return warnings;
}

}  // namespace fusion::exec
