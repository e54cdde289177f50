// Checkpoints: safetensors and a JSON sidecar, keyed by parameter name, so that any number of ranks can resume.
//
//   DIR/step-00000100/rank-0.safetensors   parameters "p/NAME", optimizer state "m/NAME" and "v/NAME", error feedback
//                                          "e/KEY"
//   DIR/step-00000100/rank-0.json          format, step, seed, model, optimizer, data, ranks, checksum of the tensors
//                                          file. Step and seed are the position in every generator of the run; data
//                                          says which samples were taken
//   DIR/step-00000100/COMPLETE             written last, by rank 0: names every file and its checksum
//
// Files are written under a temporary name, synced, renamed; a step without COMPLETE, or with a file that is missing,
// torn, longer, shorter or changed, is refused by name and the one before it is taken. All ranks write to one
// directory: on several machines it must be shared.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "exec/durable_file.h"
#include "exec/host_tensor.h"

namespace fusion::exec {

/// What a run trains on, and how far it is.
struct DataState {
  std::string identity;               ///< DataSet::identity
  std::int64_t samples = 0;           ///< taken so far: the number of the next one in the endless row of epochs
  std::int64_t epoch = 0;             ///< that one's
  std::int64_t samples_per_step = 0;  ///< micro-batches times micro-batch
  bool operator==(const DataState&) const = default;
};

struct CheckpointInfo {
  std::int64_t step = 0;
  std::uint64_t seed = 0;  ///< of the run, the shuffle of each epoch included
  std::string model;       ///< name and network_hash
  std::string optimizer;
  DataState data;
  int num_ranks = 0;
  bool operator==(const CheckpointInfo&) const = default;
};

using NamedTensors = std::map<std::string, HostTensor>;

/// The safetensors layout (safetensors.cpp). Every length is checked before it is used. Throws InputError: a full disk,
/// a file that is not one. Returns what was written.
FileDigest write_safetensors(const std::filesystem::path&, const NamedTensors&);
NamedTensors read_safetensors(const std::filesystem::path&);

/// One rank's share. `finish_checkpoint` is called on rank 0 once all ranks have written, and throws InputError for a
/// rank whose files are not there. Writing a step again makes it incomplete until it is finished again; older steps are
/// never touched.
void write_checkpoint(const std::filesystem::path& directory, const CheckpointInfo&, int rank, const NamedTensors&);
void finish_checkpoint(const std::filesystem::path& directory, const CheckpointInfo&);

/// The newest complete step; none where the directory has none, or is not there. `refused` gets a line for each newer
/// one that was not taken, and why.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& directory,
                                                       std::vector<std::string>& refused);

struct Checkpoint {
  CheckpointInfo info;
  NamedTensors tensors;  ///< of all ranks that wrote it
};
/// Verifies all that newest_checkpoint does. Throws InputError, also where two ranks' copies of a tensor differ.
Checkpoint read_checkpoint(const std::filesystem::path& step_directory);

}  // namespace fusion::exec
