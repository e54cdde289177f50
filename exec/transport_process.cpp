#include "exec/transport_process.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace fusion::exec {

ProcessName this_process() {
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(boot, text);
  std::error_code unknown;
  text += std::filesystem::read_symlink("/proc/self/ns/pid", unknown).string();
  // Without a boot id no two processes share a kernel that we know of: each gets a name of its own.
  if (!boot || unknown) text += std::to_string(::getpid()) + "@" + std::to_string(std::random_device{}());
  return {XXH3_64bits(text.data(), text.size()), ::getpid()};
}

int open_process(const ProcessName& name) {
  if (name.kernel != this_process().kernel) return -1;
  // The wrapper of glibc 2.36 has no C linkage.
  return static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(name.id), 0U));
}

}  // namespace fusion::exec
