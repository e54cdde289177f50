// Checkpoints: safetensors and a JSON sidecar, keyed by parameter name, so that any number of ranks can resume.
//
// DIR/step-00000100/rank-0.safetensors   parameters "p/NAME", optimizer state "m/NAME" and "v/NAME", error feedback
// "e/KEY" DIR/step-00000100/rank-0.json          format, step, seed, data position, ranks, checksum of the tensors file
// DIR/step-00000100/COMPLETE             written last, by rank 0: names every file and its checksum
//
// Files are written under a temporary name, synced, renamed; a step without COMPLETE, or with a file that is missing,
// torn, longer, shorter or changed, is refused by name and the one before it is taken.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "exec/host_tensor.h"

namespace fusion::exec {

struct CheckpointInfo {
  std::int64_t step = 0;
  std::uint64_t seed = 0;
  std::string model_hash;
  std::string optimizer;
  int num_ranks = 0;
  bool operator==(const CheckpointInfo&) const = default;
};

using NamedTensors = std::map<std::string, HostTensor>;

/// The safetensors layout: 8-byte little-endian header length, JSON header, tensors. Every length is checked before it
/// is used. Throws InputError.
void write_safetensors(const std::filesystem::path&, const NamedTensors&);
NamedTensors read_safetensors(const std::filesystem::path&);

/// One rank's share. `finish_checkpoint` is called on rank 0 once all ranks have written.
void write_checkpoint(const std::filesystem::path& directory, const CheckpointInfo&, int rank, const NamedTensors&);
void finish_checkpoint(const std::filesystem::path& directory, const CheckpointInfo&);

/// The newest complete step. `refused` gets a line for each newer one that was not taken, and why.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& directory,
                                                       std::vector<std::string>& refused);

struct Checkpoint {
  CheckpointInfo info;
  NamedTensors tensors;  ///< of all ranks that wrote it
};
Checkpoint read_checkpoint(const std::filesystem::path& step_directory);

}  // namespace fusion::exec
