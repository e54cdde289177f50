#include "core/compress/wire.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
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

/// Those that a writer chooses among beside dense, all of known size.
std::array<IndexFormat, 3> sized_formats(std::uint64_t elements) {
  return {IndexFormat::bitmap, elements <= std::uint64_t{1} << 32 ? IndexFormat::raw32 : IndexFormat::raw64,
          IndexFormat::byte_delta};
}

struct Format {
  IndexFormat index;
  std::uint64_t bytes;  ///< both sections
};

/// The smallest but for Rice, whose size is only estimated before it is written.
Format smallest_sized(const Selection& s, std::uint64_t row, ValueFormat value) {
  Format best{IndexFormat::none, value_bytes(value, s.elements)};
  const std::uint64_t values = value_bytes(value, s.index.size());
  for (const IndexFormat format : sized_formats(s.elements)) {
    const std::uint64_t bytes = values + index_bytes(format, s.index, s.elements, row);
    if (bytes < best.bytes) best = {format, bytes};
  }
  return best;
}

std::uint64_t head_bytes(const Shape& shape) { return sizeof(Header) + 8 * shape.size(); }

void finish(Header header, const Shape& shape, std::span<std::byte> message) {
  std::memcpy(message.data(), &header, sizeof header);
  if (!shape.empty()) std::memcpy(message.data() + sizeof header, shape.data(), 8 * shape.size());
  header.checksum = message_checksum(message);
  std::memcpy(message.data() + checksum_offset, &header.checksum, 8);
}

Header start(DType dtype, const Shape& shape, std::uint64_t elements, std::vector<std::byte>& out) {
  check(shape.size() <= max_rank, "a tensor of more than 8 dimensions");
  check(elements_of(shape) == elements, "a selection of another tensor's size");
  Header header;
  header.dtype = code_of(dtype);
  header.rank = static_cast<std::uint8_t>(shape.size());
  out.resize(out.size() + head_bytes(shape));
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

struct Sections {
  Header header;
  std::uint64_t elements;
  std::span<const std::byte> index, values;
};

/// All of a message but its index and values, checked.
Sections read_head(std::span<const std::byte> bytes, Message& out) {
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
  return {header, elements, body.first(header.index_bytes), body.subspan(header.index_bytes)};
}

void read_index_section(const Sections& sections, Message& out) {
  out.index.resize(out.dense() ? 0 : sections.header.count);
  if (!out.dense()) read_index(out.index_format, sections.index, sections.elements, out.index);
}

void write_as_dense(const Selection& s, DType dtype, const Shape& shape, ValueFormat format,
                    std::vector<std::byte>& out, std::vector<float>* sent) {
  std::vector<float> all(s.elements), all_sent;
  for (std::size_t i = 0; i < s.index.size(); ++i) all[s.index[i]] = s.value[i];
  append_dense_message(all, dtype, shape, format, out, sent ? &all_sent : nullptr);
  if (!sent) return;
  sent->resize(s.index.size());
  for (std::size_t i = 0; i < s.index.size(); ++i) (*sent)[i] = all_sent[s.index[i]];
}

void write_as_sparse(const Selection& s, DType dtype, const Shape& shape, IndexFormat index, ValueFormat value,
                     std::vector<std::byte>& out, std::vector<float>* sent) {
  const std::size_t at = out.size();
  Header header = start(dtype, shape, s.elements, out);
  header.index_format = static_cast<std::uint8_t>(index);
  header.value_format = static_cast<std::uint8_t>(value);
  header.count = s.index.size();
  const std::size_t head = out.size();
  write_index(index, s.index, s.elements, row_length(shape), out);
  header.index_bytes = out.size() - head;
  header.scale = write_values(value, s.value, out, sent);
  header.value_bytes = out.size() - head - header.index_bytes;
  finish(header, shape, std::span(out).subspan(at));
}

}  // namespace

std::uint64_t elements_of(const Shape& shape) {
  std::uint64_t elements = 1;
  for (const std::int64_t size : shape) elements *= static_cast<std::uint64_t>(size);
  return elements;
}

WireSize dense_message_size(const Shape& shape, ValueFormat format) {
  const std::uint64_t bytes = head_bytes(shape) + value_bytes(format, elements_of(shape));
  return {bytes, bytes, true};
}

WireSize message_size(const Shape& shape, std::uint64_t kept, const WireOptions& options) {
  const std::uint64_t elements = elements_of(shape), values = head_bytes(shape) + value_bytes(options.value, kept);
  const WireSize dense = dense_message_size(shape, options.value);
  if (options.index == IndexFormat::none) return dense;
  const auto size_as = [&](IndexFormat format) {
    const IndexBytes index = index_bytes(format, elements, kept);
    return WireSize{values + static_cast<std::uint64_t>(std::ceil(index.expected)), values + index.most, false};
  };
  if (options.index) {
    WireSize size = size_as(*options.index);
    size.exact = *options.index != IndexFormat::byte_delta && *options.index != IndexFormat::rice;
    return size;
  }
  WireSize size = dense;
  size.exact = kept == elements;
  size.expected = std::min(size.expected, size_as(IndexFormat::rice).expected);
  for (const IndexFormat format : sized_formats(elements)) {
    const WireSize sparse = size_as(format);
    size.expected = std::min(size.expected, sparse.expected);
    size.most = std::min(size.most, sparse.most);
  }
  return size;
}

void append_message(const Selection& s, DType dtype, const Shape& shape, const WireOptions& options,
                    std::vector<std::byte>& out, std::vector<float>* sent) {
  const auto write = [&](IndexFormat index) {
    if (index == IndexFormat::none) {
      write_as_dense(s, dtype, shape, options.value, out, sent);
    } else {
      write_as_sparse(s, dtype, shape, index, options.value, out, sent);
    }
  };
  if (options.index) return write(*options.index);
  const std::uint64_t row = row_length(shape), values = value_bytes(options.value, s.index.size());
  const Format sized = smallest_sized(s, row, options.value);
  if (values + index_bytes(IndexFormat::rice, s.index, s.elements, row) < sized.bytes) {
    const std::size_t at = out.size();
    write(IndexFormat::rice);
    if (out.size() - at <= head_bytes(shape) + sized.bytes) return;  // as estimated
    out.resize(at);
  }
  write(sized.index);
}

void append_dense_message(std::span<const float> values, DType dtype, const Shape& shape, ValueFormat format,
                          std::vector<std::byte>& out, std::vector<float>* sent) {
  const std::size_t at = out.size();
  Header header = start(dtype, shape, values.size(), out);
  header.value_format = static_cast<std::uint8_t>(format);
  header.count = values.size();
  header.scale = write_values(format, values, out, sent);
  header.value_bytes = value_bytes(format, values.size());
  finish(header, shape, std::span(out).subspan(at));
}

void read_message(std::span<const std::byte> bytes, Message& out) {
  const Sections sections = read_head(bytes, out);
  out.value.resize(sections.header.count);
  read_index_section(sections, out);
  read_values(out.value_format, sections.header.scale, sections.values, out.value);
}

void read_tensor(std::span<const std::byte> bytes, const Shape& shape, std::span<float> out, Message& scratch) {
  check(out.size() == elements_of(shape), "a tensor of another size");
  const Sections sections = read_head(bytes, scratch);
  if (scratch.shape != shape) bad("it is of shape " + to_string(scratch.shape) + ", not " + to_string(shape));
  if (scratch.dense()) return read_values(scratch.value_format, sections.header.scale, sections.values, out);
  scratch.value.resize(sections.header.count);
  read_index_section(sections, scratch);
  read_values(scratch.value_format, sections.header.scale, sections.values, scratch.value);
  scatter(scratch, out);
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
