#include "sim/launch_rank.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <string_view>
#include <thread>

namespace fusion::sim {
namespace {

/// The first of these variables that holds a whole number.
int first_number(std::initializer_list<const char*> names, int fallback) {
  for (const char* name : names) {
    const char* text = std::getenv(name);
    if (text == nullptr) continue;
    const std::string_view digits = text;
    int value = 0;
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
    if (error == std::errc{} && end == digits.end() && value >= 0) return value;
  }
  return fallback;
}

}  // namespace

int launch_rank() { return first_number({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}, 0); }

int cores_per_process() {
  const int all = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  cpu_set_t set;
  const int bound = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : all;
  const int local = std::max(1, first_number({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}, 1));
  return std::max(1, std::min(bound, all / local));
}

}  // namespace fusion::sim
