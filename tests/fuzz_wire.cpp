// A libFuzzer target: whatever the bytes, the reader refuses them or returns a message that is sound and that can be
// written and read again. The checksum is put right first, so that the fuzzer gets past it.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "core/compress/wire.h"

namespace {

using namespace fusion;
using namespace fusion::compress;

void require(bool condition) {
  if (!condition) std::abort();
}

void require_sound(const Message& m) {
  const std::uint64_t elements = elements_of(m.shape);
  require(m.dense() ? m.value.size() == elements : m.index.size() == m.value.size());
  for (std::size_t i = 0; i < m.index.size(); ++i)
    require(m.index[i] < elements && (i == 0 || m.index[i - 1] < m.index[i]));
  for (const float v : m.value) require(std::isfinite(v));
}

/// Read straight into the tensor: the same values, and zeros between.
void require_same_tensor(std::span<const std::byte> bytes, const Message& m) {
  const std::uint64_t elements = elements_of(m.shape);
  if (elements > (std::uint64_t{1} << 20)) return;
  std::vector<float> whole(elements), scattered(elements);
  Message scratch;
  read_tensor(bytes, m.shape, whole, scratch);
  scatter(m, scattered);
  require(whole == scattered);
}

void require_round_trip(const Message& m) {
  std::vector<std::byte> bytes;
  Message again;
  if (m.dense()) {
    write_dense_message(m.value, m.dtype, m.shape, ValueFormat::fp32, bytes);
  } else {
    Selection s;
    s.elements = elements_of(m.shape);
    s.index = m.index;
    s.value = m.value;
    const bool huge = s.elements > (std::uint64_t{1} << 20);  // a bitmap or a dense form of it would not fit here
    write_message(s, m.dtype, m.shape, {ValueFormat::fp32, huge ? IndexFormat::rice : m.index_format}, bytes);
  }
  read_message(bytes, again);
  require(again.index == m.index && again.value == m.value && again.shape == m.shape);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  if (size >= 56) {
    const std::uint64_t sum = message_checksum(bytes);
    std::memcpy(bytes.data() + 48, &sum, 8);
  }
  Message m;
  try {
    read_message(bytes, m);
  } catch (const RuntimeFault&) {
    return 0;
  }
  require_sound(m);
  require_same_tensor(bytes, m);
  require_round_trip(m);
  return 0;
}
