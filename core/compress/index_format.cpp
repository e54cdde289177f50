#include "core/compress/index_format.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "core/base/error.h"
#include "core/compress/rice.h"

namespace fusion::compress {
namespace {

using Indices = std::span<const std::uint64_t>;
using Section = std::span<const std::byte>;

[[noreturn]] void bad(std::string_view what) { throw RuntimeFault("wire message: " + std::string(what)); }

std::byte* grow(std::vector<std::byte>& out, std::size_t bytes) {
  out.resize(out.size() + bytes);
  return out.data() + out.size() - bytes;
}

template <class T>
void write_raw(Indices index, std::vector<std::byte>& out) {
  std::byte* to = grow(out, index.size() * sizeof(T));
  for (std::size_t i = 0; i < index.size(); ++i) {
    const auto narrow = static_cast<T>(index[i]);
    std::memcpy(to + i * sizeof(T), &narrow, sizeof(T));
  }
}

template <class T>
void read_raw(Section section, std::uint64_t elements, std::span<std::uint64_t> index) {
  if (section.size() / sizeof(T) != index.size() || section.size() % sizeof(T) != 0)
    bad("the index section has another length than its count");
  std::uint64_t next = 0;  // the lowest index that may follow
  for (std::size_t i = 0; i < index.size(); ++i) {
    T value;
    std::memcpy(&value, section.data() + i * sizeof(T), sizeof(T));
    if (value < next || value >= elements) bad("an index is out of order or out of range");
    index[i] = value;
    next = std::uint64_t{value} + 1;
  }
}

std::uint64_t byte_delta_bytes(Indices index) {
  std::uint64_t next = 0, bytes = 0;
  for (const std::uint64_t i : index) {
    bytes += (i - next) / 255 + 1;
    next = i + 1;
  }
  return bytes;
}

void write_byte_delta(Indices index, std::vector<std::byte>& out) {
  if (index.empty()) return;
  const std::size_t start = out.size();
  std::byte* const first = grow(out, index.size() + index.back() / 255 + 1);  // at least what the gaps need
  std::byte* to = first;
  std::uint64_t next = 0;
  for (const std::uint64_t i : index) {
    std::uint64_t gap = i - next;
    for (; gap >= 255; gap -= 255) *to++ = std::byte{255};
    *to++ = static_cast<std::byte>(gap);
    next = i + 1;
  }
  out.resize(start + static_cast<std::size_t>(to - first));
}

/// Without a branch on the data: every byte writes its index, and only what is no escape moves on.
void read_byte_delta(Section section, std::uint64_t elements, std::span<std::uint64_t> index) {
  std::uint64_t next = 0, last = 0;
  std::size_t read = 0;
  for (std::size_t at = 0; at < section.size(); ++at) {
    if (read == index.size()) bad("the index section goes on after its last index");
    const auto step = static_cast<std::uint64_t>(section[at]);
    next += step;
    index[read] = last = next;
    const bool complete = step != 255;
    read += complete;
    next += complete;
  }
  if (read != index.size()) bad("the index section ends before its last index");
  if (read > 0 && (last >= elements || section.back() == std::byte{255})) bad("an index is out of range");
}

void write_bitmap(Indices index, std::uint64_t elements, std::vector<std::byte>& out) {
  std::byte* to = grow(out, (elements + 7) / 8);
  for (const std::uint64_t i : index) to[i / 8] |= std::byte{1} << (i % 8);
}

void read_bitmap(Section section, std::uint64_t elements, std::span<std::uint64_t> index) {
  if (section.size() != elements / 8 + (elements % 8 != 0)) bad("the bitmap has another length than the tensor");
  std::size_t read = 0;
  for (std::size_t at = 0; at < section.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, section.data() + at, std::min<std::size_t>(8, section.size() - at));
    if (static_cast<std::size_t>(std::popcount(word)) > index.size() - read) bad("the bitmap has too many bits");
    for (; word != 0; word &= word - 1) index[read++] = 8 * at + static_cast<std::uint64_t>(std::countr_zero(word));
  }
  if (read != index.size()) bad("the bitmap has too few bits");
  if (read > 0 && index.back() >= elements) bad("the bitmap has a bit beyond the tensor");
}

/// An index costs a byte and another for each 255 elements of its gap, and the gaps' sum is n - k at most. A gap of a
/// uniform support reaches g with probability (1 - k / n)^g.
IndexBytes byte_delta_bytes(std::uint64_t elements, std::uint64_t kept) {
  const double n = static_cast<double>(elements), k = static_cast<double>(kept);
  const double reaches_255 = kept == 0 ? 0 : std::pow(1 - k / n, 255);
  return {k / (1 - reaches_255), kept + (elements - kept) / 255};
}

}  // namespace

IndexBytes index_bytes(IndexFormat format, std::uint64_t elements, std::uint64_t kept) {
  const auto exactly = [](std::uint64_t bytes) { return IndexBytes{static_cast<double>(bytes), bytes}; };
  switch (format) {
    case IndexFormat::none:
      return exactly(0);
    case IndexFormat::raw32:
      return exactly(4 * kept);
    case IndexFormat::raw64:
      return exactly(8 * kept);
    case IndexFormat::byte_delta:
      return byte_delta_bytes(elements, kept);
    case IndexFormat::rice:
      return {expected_rice_bytes(elements, kept), most_rice_bytes(kept)};
    case IndexFormat::bitmap:
      return exactly(elements / 8 + (elements % 8 != 0));
  }
  check(false, "an index format without a size");
  return {};
}

std::uint64_t index_bytes(IndexFormat format, Indices index, std::uint64_t elements, std::uint64_t row) {
  switch (format) {
    case IndexFormat::none:
      return 0;
    case IndexFormat::raw32:
      return 4 * index.size();
    case IndexFormat::raw64:
      return 8 * index.size();
    case IndexFormat::byte_delta:
      return byte_delta_bytes(index);
    case IndexFormat::rice:
      return rice_bytes(index, elements, row);
    case IndexFormat::bitmap:
      return (elements + 7) / 8;
  }
  check(false, "an index format without a size");
  return 0;
}

void write_index(IndexFormat format, Indices index, std::uint64_t elements, std::uint64_t row,
                 std::vector<std::byte>& out) {
  switch (format) {
    case IndexFormat::none:
      return;
    case IndexFormat::raw32:
      return write_raw<std::uint32_t>(index, out);
    case IndexFormat::raw64:
      return write_raw<std::uint64_t>(index, out);
    case IndexFormat::byte_delta:
      return write_byte_delta(index, out);
    case IndexFormat::rice:
      return write_rice(index, elements, row, out);
    case IndexFormat::bitmap:
      return write_bitmap(index, elements, out);
  }
}

void read_index(IndexFormat format, Section section, std::uint64_t elements, std::span<std::uint64_t> index) {
  switch (format) {
    case IndexFormat::none:
      bad("a dense message has no index");
      break;
    case IndexFormat::raw32:
      return read_raw<std::uint32_t>(section, elements, index);
    case IndexFormat::raw64:
      return read_raw<std::uint64_t>(section, elements, index);
    case IndexFormat::byte_delta:
      return read_byte_delta(section, elements, index);
    case IndexFormat::rice:
      return read_rice(section, elements, index);
    case IndexFormat::bitmap:
      return read_bitmap(section, elements, index);
  }
}

}  // namespace fusion::compress
