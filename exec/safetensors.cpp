// The safetensors layout: length of the header (8 bytes, little-endian), a JSON header padded with spaces to 8 bytes,
// then the tensors without a gap:
//
//   {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …, "__metadata__": {…}}
//
// Offsets count from the end of the header. F32 and I64 are read and written here, "__metadata__" is skipped.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json_file.h"
#include "exec/checkpoint.h"

namespace fusion::exec {
namespace {

constexpr std::uint64_t longest_header = 100'000'000;  // the format's own limit
constexpr std::size_t length_bytes = 8;
constexpr const char* metadata = "__metadata__";

std::string header_of(const NamedTensors& tensors) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::size_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    check(name != metadata, "a tensor can't have the name of the metadata");
    check(tensor.data.size() == static_cast<std::size_t>(num_elements(tensor.shape) * size_of(tensor.dtype)),
          "a tensor whose data are not those of its shape");
    const std::size_t end = offset + tensor.data.size();
    header[name] = {{"dtype", tensor.dtype == DType::fp32 ? "F32" : "I64"},
                    {"shape", tensor.shape},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((length_bytes - text.size() % length_bytes) % length_bytes, ' ');
  return text;
}

/// One tensor of the header, checked but for its place among the others.
struct Entry {
  std::string name;
  Shape shape;
  DType dtype = DType::fp32;
  std::uint64_t begin = 0, end = 0;
};

DType dtype_of(const JsonObject& object) {
  const std::string text = object.string("dtype");
  if (text == "F32") return DType::fp32;
  if (text == "I64") return DType::int64;
  throw object.error("dtype", in_quotes(text) + " is not read; \"F32\" and \"I64\" are");
}

std::uint64_t bytes_of(const JsonObject& object, const Entry& entry) {
  try {
    return static_cast<std::uint64_t>(num_elements(entry.shape) * size_of(entry.dtype));
  } catch (const std::invalid_argument& error) {
    throw object.error("shape", error.what());
  }
}

Entry entry_of(const JsonObject& header, const std::string& name) {
  const JsonObject object = header.object(name);
  Entry entry{.name = name, .shape = object.integers("shape"), .dtype = dtype_of(object)};
  const std::vector<std::int64_t> offsets = object.integers("data_offsets");
  object.reject_unknown();
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    throw object.error("data_offsets", to_string(offsets) + " are not a begin and an end");
  entry.begin = static_cast<std::uint64_t>(offsets[0]);
  entry.end = static_cast<std::uint64_t>(offsets[1]);
  if (const std::uint64_t wanted = bytes_of(object, entry); entry.end - entry.begin != wanted)
    throw object.error("data_offsets", std::to_string(entry.end - entry.begin) + " bytes, shape " +
                                           to_string(entry.shape) + " has " + std::to_string(wanted));
  return entry;
}

/// In the order of their data, which cover `data_bytes` without a gap: the sum of all allocations is the file's size.
std::vector<Entry> entries_of(const JsonObject& header, const std::string& file, std::uint64_t data_bytes) {
  std::vector<Entry> entries;
  for (const std::string& name : header.keys())
    if (name != metadata) entries.push_back(entry_of(header, name));
  std::ranges::sort(entries, {}, &Entry::begin);
  std::uint64_t end = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != end)
      throw InputError(file, entry.name,
                       "begins at byte " + std::to_string(entry.begin) + " of the data, the tensor before it ends at " +
                           std::to_string(end));
    end = entry.end;
  }
  if (end != data_bytes)
    throw InputError(
        file, "", "its tensors take " + std::to_string(end) + " bytes, " + std::to_string(data_bytes) + " are there");
  return entries;
}

void read_into(std::ifstream& in, const std::string& file, void* to, std::uint64_t bytes) {
  if (!in.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes)))
    throw InputError(file, "", "ends too early, or can't be read");
}

std::string read_header(std::ifstream& in, const std::string& file, std::uint64_t file_bytes) {
  if (file_bytes < length_bytes)
    throw InputError(file, "", std::to_string(file_bytes) + " bytes are no safetensors file");
  std::uint64_t length = 0;
  read_into(in, file, &length, length_bytes);
  if (length > longest_header)
    throw InputError(file, "",
                     "claims a header of " + std::to_string(length) + " bytes; at most " +
                         std::to_string(longest_header) + " are allowed");
  if (length > file_bytes - length_bytes)
    throw InputError(file, "",
                     "claims a header of " + std::to_string(length) + " bytes, but only " +
                         std::to_string(file_bytes - length_bytes) + " follow");
  std::string header(length, '\0');
  read_into(in, file, header.data(), length);
  return header;
}

}  // namespace

FileDigest write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors) {
  const std::string header = header_of(tensors);
  const std::uint64_t length = header.size();
  DurableFile out(path);
  out.write(std::as_bytes(std::span(&length, 1)));
  out.write(std::as_bytes(std::span(header)));
  for (const auto& [name, tensor] : tensors) out.write(tensor.data);
  return out.commit();
}

NamedTensors read_safetensors(const std::filesystem::path& path) {
  const std::string file = path.string();
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) throw InputError(file, "", "no such file");
  const std::uint64_t file_bytes = std::filesystem::file_size(path, error);
  std::ifstream in(path, std::ios::binary);
  if (error || !in) throw InputError(file, "", "can't be read");
  const std::string header = read_header(in, file, file_bytes);
  NamedTensors tensors;
  for (Entry& entry : entries_of(parse_json(header, file), file, file_bytes - length_bytes - header.size())) {
    HostTensor tensor = HostTensor::zeros(std::move(entry.shape), entry.dtype);
    read_into(in, file, tensor.data.data(), tensor.data.size());
    tensors.emplace(std::move(entry.name), std::move(tensor));
  }
  return tensors;
}

}  // namespace fusion::exec
