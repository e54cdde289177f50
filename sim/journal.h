// DIR/journal.jsonl: a line for each piece of work as it ends, added by any number of processes on any number of hosts.
//
// The processes agree by locks on bytes of the journal itself, which the kernel, or the server of a network file
// system, takes from a process that dies; nothing is left to clean up. Since they lie on the file that is read and
// written, a network file system brings its content up to date with each of them.
//
//   byte 2^61            held while a line is added
//   byte 2^62 + id / 4   held by whoever does the piece of work `id`
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace fusion::sim {

class Journal {
 public:
  /// Makes the file if there is none. Throws InputError where it can't be read, written or locked.
  explicit Journal(std::filesystem::path);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Takes a piece of work, or says that another process has it. Look for its line in `read_new` afterwards: another
  /// may have done it meanwhile.
  bool claim(std::uint64_t id);
  void release(std::uint64_t id);

  /// Adds a line and a line break; it is on its way to the disk when this returns.
  void append(const std::string& line);

  /// The whole lines that others added since the last call; the first call gives all lines. What a kill has torn off is
  /// a line of its own.
  std::vector<std::string> read_new();

 private:
  bool lock(std::int64_t byte, short kind, bool wait);

  std::filesystem::path path_;
  int file_ = -1;
  std::int64_t read_ = 0;  ///< up to here lines are known
};

}  // namespace fusion::sim
