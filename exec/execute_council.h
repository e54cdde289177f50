// What ranks tell each other beside the Program: all to rank 0, and rank 0 to all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/transport.h"

namespace fusion::exec {

enum class Topic : std::uint32_t { data, start, norms, status, decision, written, finished };

using Bytestring = std::vector<std::byte>;

class Council {
 public:
  explicit Council(Transport& transport) : transport_(transport) {}

  /// Rank 0 gets what every rank says, its own first; the others get nothing. Throws PeerLost.
  std::vector<Bytestring> gather(Topic, std::int64_t step, Bytestring mine, const std::string& waiting_for);
  /// What rank 0 says.
  Bytestring tell(Topic, std::int64_t step, Bytestring from_rank_0, const std::string& waiting_for);
  /// No rank returns before all have called.
  void barrier(Topic arrive, Topic leave, std::int64_t step, const std::string& waiting_for);

  Transport& transport() const { return transport_; }

 private:
  Transport& transport_;
};

}  // namespace fusion::exec
