#include "core/compress/wire.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "core/base/error.h"

namespace fusion::compress {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire format is written as memory lies");

constexpr std::array<char, 4> magic{'F', 'L', 'N', 'W'};
constexpr std::size_t max_rank = 8;
constexpr std::uint64_t max_elements = std::uint64_t{1} << 62;

struct Header {
  std::array<char, 4> magic = fusion::compress::magic;
  std::uint8_t version = 1, dtype = 0, index_format = 0, value_format = 0, rank = 0;
  std::array<std::uint8_t, 7> zero{};
  std::uint64_t count = 0, index_bytes = 0, value_bytes = 0;
  ValueScale scale;
  std::uint64_t checksum = 0;
};
static_assert(sizeof(Header) == 56 && std::is_trivially_copyable_v<Header>);
constexpr std::size_t checksum_offset = 48;

[[noreturn]] void bad(const std::string& what) { throw RuntimeFault("wire message: " + what); }

constexpr std::array dtypes{DType::fp32, DType::fp16, DType::bf16};

std::uint8_t code_of(DType dtype) {
  const auto found = std::find(dtypes.begin(), dtypes.end(), dtype);
  check(found != dtypes.end(), "only floating-point tensors are compressed");
  return static_cast<std::uint8_t>(found - dtypes.begin());
}

std::uint64_t row_length(const Shape& shape) {
  return shape.size() < 2 ? 1 : static_cast<std::uint64_t>(std::max<std::int64_t>(shape.back(), 1));
}

struct Format {
  IndexFormat index;
  std::uint64_t bytes;
};

Format smallest(const Selection& s, std::uint64_t row, ValueFormat value) {
  Format best{IndexFormat::none, value_bytes(value, s.elements)};
  const std::uint64_t values = value_bytes(value, s.index.size());
  const auto consider = [&](IndexFormat format) {
    const std::uint64_t bytes = values + index_bytes(format, s.index, s.elements, row);
    if (bytes < best.bytes) best = {format, bytes};
  };
  consider(IndexFormat::bitmap);
  consider(s.elements <= std::uint64_t{1} << 32 ? IndexFormat::raw32 : IndexFormat::raw64);
  consider(IndexFormat::byte_delta);
  consider(IndexFormat::rice);
  return best;
}

void finish(Header header, const Shape& shape, std::vector<std::byte>& out) {
  std::memcpy(out.data(), &header, sizeof header);
  if (!shape.empty()) std::memcpy(out.data() + sizeof header, shape.data(), 8 * shape.size());
  header.checksum = message_checksum(out);
  std::memcpy(out.data() + checksum_offset, &header.checksum, 8);
}

Header start(DType dtype, const Shape& shape, std::uint64_t elements, std::vector<std::byte>& out) {
  check(shape.size() <= max_rank, "a tensor of more than 8 dimensions");
  check(elements_of(shape) == elements, "a selection of another tensor's size");
  Header header;
  header.dtype = code_of(dtype);
  header.rank = static_cast<std::uint8_t>(shape.size());
  out.clear();
  out.resize(sizeof header + 8 * shape.size());
  return header;
}

Header read_header(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < sizeof header) bad(std::to_string(bytes.size()) + " bytes are too few for a header");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != magic) bad("it does not begin with FLNW");
  if (header.version != 1) bad("version " + std::to_string(header.version) + ", only 1 is known");
  if (message_checksum(bytes) != header.checksum) bad("the checksum does not match");
  if (header.dtype >= dtypes.size()) bad("dtype " + std::to_string(header.dtype) + " is not known");
  if (header.index_format > static_cast<int>(IndexFormat::bitmap)) bad("the index format is not known");
  if (header.value_format > static_cast<int>(ValueFormat::int4_log)) bad("the value format is not known");
  if (header.rank > max_rank) bad("rank " + std::to_string(header.rank) + " is above 8");
  if (header.zero != std::array<std::uint8_t, 7>{}) bad("reserved bytes are not zero");
  return header;
}

/// The sections' lengths add up to the message's, and the values are as many as their section holds.
void check_lengths(const Header& header, std::size_t message_bytes) {
  const std::uint64_t head = sizeof header + 8 * std::uint64_t{header.rank};
  if (message_bytes < head) bad("it ends within its shape");
  const std::uint64_t body = message_bytes - head;
  if (header.index_bytes > body || header.value_bytes != body - header.index_bytes)
    bad("its sections do not add up to its length");
  if (header.count > 2 * header.value_bytes ||
      header.value_bytes != value_bytes(static_cast<ValueFormat>(header.value_format), header.count))
    bad("its value section is of another length than its count");
}

std::uint64_t read_shape(std::span<const std::byte> bytes, std::size_t rank, Shape& shape) {
  shape.resize(rank);
  if (rank > 0) std::memcpy(shape.data(), bytes.data() + sizeof(Header), 8 * rank);
  std::uint64_t elements = 1;
  for (const std::int64_t d : shape) {
    const auto size = static_cast<std::uint64_t>(d);
    if (d < 0 || size >= max_elements || (size != 0 && elements >= max_elements / size))
      bad("its shape has too many elements");
    elements *= size;
  }
  return elements;
}

}  // namespace

std::uint64_t elements_of(const Shape& shape) {
  std::uint64_t elements = 1;
  for (const std::int64_t size : shape) elements *= static_cast<std::uint64_t>(size);
  return elements;
}

void write_message(const Selection& s, DType dtype, const Shape& shape, const WireOptions& options,
                   std::vector<std::byte>& out, std::vector<float>* sent) {
  const std::uint64_t row = row_length(shape);
  const IndexFormat format = options.index ? *options.index : smallest(s, row, options.value).index;
  if (format == IndexFormat::none) {
    std::vector<float> all(s.elements), all_sent;
    for (std::size_t i = 0; i < s.index.size(); ++i) all[s.index[i]] = s.value[i];
    write_dense_message(all, dtype, shape, options.value, out, sent ? &all_sent : nullptr);
    if (!sent) return;
    sent->resize(s.index.size());
    for (std::size_t i = 0; i < s.index.size(); ++i) (*sent)[i] = all_sent[s.index[i]];
    return;
  }
  Header header = start(dtype, shape, s.elements, out);
  header.index_format = static_cast<std::uint8_t>(format);
  header.value_format = static_cast<std::uint8_t>(options.value);
  header.count = s.index.size();
  const std::size_t head = out.size();
  write_index(format, s.index, s.elements, row, out);
  header.index_bytes = out.size() - head;
  header.scale = write_values(options.value, s.value, out, sent);
  header.value_bytes = out.size() - head - header.index_bytes;
  finish(header, shape, out);
}

void write_dense_message(std::span<const float> values, DType dtype, const Shape& shape, ValueFormat format,
                         std::vector<std::byte>& out, std::vector<float>* sent) {
  Header header = start(dtype, shape, values.size(), out);
  header.value_format = static_cast<std::uint8_t>(format);
  header.count = values.size();
  header.scale = write_values(format, values, out, sent);
  header.value_bytes = value_bytes(format, values.size());
  finish(header, shape, out);
}

void read_message(std::span<const std::byte> bytes, Message& out) {
  const Header header = read_header(bytes);
  check_lengths(header, bytes.size());
  const std::uint64_t elements = read_shape(bytes, header.rank, out.shape);
  out.dtype = dtypes[header.dtype];
  out.index_format = static_cast<IndexFormat>(header.index_format);
  out.value_format = static_cast<ValueFormat>(header.value_format);
  out.index_section = header.index_bytes;
  out.value_section = header.value_bytes;
  if (header.count > elements || (out.dense() && (header.count != elements || header.index_bytes != 0)))
    bad("its count does not fit its shape");
  const auto body = bytes.subspan(sizeof header + 8 * std::size_t{header.rank});
  out.index.resize(out.dense() ? 0 : header.count);
  out.value.resize(header.count);
  if (!out.dense()) read_index(out.index_format, body.first(header.index_bytes), elements, out.index);
  read_values(out.value_format, header.scale, body.subspan(header.index_bytes), out.value);
}

std::uint64_t message_checksum(std::span<const std::byte> bytes) {
  constexpr std::uint64_t zero = 0;
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, bytes.data(), checksum_offset);
  XXH3_64bits_update(&state, &zero, sizeof zero);
  XXH3_64bits_update(&state, bytes.data() + checksum_offset + 8, bytes.size() - checksum_offset - 8);
  return XXH3_64bits_digest(&state);
}

void scatter(const Message& message, std::span<float> out) {
  check(out.size() == elements_of(message.shape), "a tensor of another size");
  if (message.dense()) {
    std::copy(message.value.begin(), message.value.end(), out.begin());
    return;
  }
  std::fill(out.begin(), out.end(), 0.0f);
  for (std::size_t i = 0; i < message.index.size(); ++i) out[message.index[i]] = message.value[i];
}

}  // namespace fusion::compress
