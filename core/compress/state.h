// The states of all tensors, by stable name ("h.0.attn.c_attn.weight grad", "boundary 3 forward"): what error feedback
// has left out and what receivers hold. A state begins when its name is first asked for, ends when the caller drops it,
// and in between is saved and restored with the model. Losing it silently is the fault that this file is here to
// prevent.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "core/compress/codec.h"

namespace fusion::compress {

struct CodecStates {
  std::map<std::string, TensorState, std::less<>> tensors;

  /// The state of a name, new where the name is.
  TensorState& operator[](std::string_view name);
  bool operator==(const CodecStates&) const = default;
};

/// All or nothing; a checksum guards the whole.
void save(const CodecStates&, const std::filesystem::path&);

/// Throws InputError naming the file: absent, cut short, damaged, of another version.
CodecStates restore(const std::filesystem::path&);

/// The states whose names are wanted, no more and no fewer. Throws InputError(file, name, …) for the first that is
/// missing or left over, since either means that the run resumes something else than was saved.
CodecStates restore(const std::filesystem::path&, std::span<const std::string> names);

}  // namespace fusion::compress
