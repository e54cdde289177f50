// The file: "FLCS", u32 version 1, u64 count, then per state in order of names: name, shape, u64 step, fp32 hint,
// residual, reference, each list as a u64 length and its values; at the end XXH3-64 of all before it. Little-endian.
#include "core/compress/state.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

#include "core/base/file.h"
#include "core/compress/payload.h"

namespace fusion::compress {
namespace {

constexpr std::array<char, 4> magic{'F', 'L', 'C', 'S'};
constexpr std::uint32_t version = 1;

template <class T>
void append_list(std::vector<std::byte>& out, std::span<const T> values) {
  append(out, std::uint64_t{values.size()});
  append(out, values);
}

template <class List>
void read_list(PayloadReader& in, List& values) {
  using T = typename List::value_type;
  const auto count = in.one<std::uint64_t>();
  if (count > (std::uint64_t{1} << 60) / sizeof(T)) throw RuntimeFault("a list has no such length");
  const auto bytes = in.bytes(count * sizeof(T));  // before anything is allocated
  values.resize(count);
  if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
}

CodecStates read_states(std::span<const std::byte> bytes) {
  PayloadReader in(bytes);
  if (in.one<std::array<char, 4>>() != magic) throw RuntimeFault("it holds no compression states");
  if (const auto v = in.one<std::uint32_t>(); v != version)
    throw RuntimeFault("version " + std::to_string(v) + ", only 1 is known");
  CodecStates states;
  for (auto left = in.one<std::uint64_t>(); left > 0; --left) {
    std::string name;
    read_list(in, name);
    TensorState state;
    read_list(in, state.shape);
    state.step = in.one<std::uint64_t>();
    state.hint = in.one<float>();
    read_list(in, state.residual);
    read_list(in, state.reference);
    states.tensors.emplace(std::move(name), std::move(state));
  }
  in.finish();
  return states;
}

std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw InputError(path.string(), "", "can't be read; it should hold the compression states of a checkpoint");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<std::byte> bytes(text.size());
  std::transform(text.begin(), text.end(), bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

}  // namespace

TensorState& CodecStates::operator[](std::string_view name) {
  const auto found = tensors.find(name);
  return found != tensors.end() ? found->second : tensors.emplace(name, TensorState{}).first->second;
}

void save(const CodecStates& states, const std::filesystem::path& path) {
  std::vector<std::byte> out;
  append(out, magic);
  append(out, version);
  append(out, std::uint64_t{states.tensors.size()});
  for (const auto& [name, state] : states.tensors) {
    append_list(out, std::span<const char>(name));
    append_list(out, std::span<const std::int64_t>(state.shape));
    append(out, state.step);
    append(out, state.hint);
    append_list(out, std::span<const float>(state.residual));
    append_list(out, std::span<const float>(state.reference));
  }
  append(out, std::uint64_t{XXH3_64bits(out.data(), out.size())});
  write_text(path, {reinterpret_cast<const char*>(out.data()), out.size()});
}

CodecStates restore(const std::filesystem::path& path) {
  const auto bytes = read_bytes(path);
  std::uint64_t sum = 0;
  if (bytes.size() < sizeof sum) throw InputError(path.string(), "", "is cut short: it holds no compression states");
  const auto body = std::span(bytes).first(bytes.size() - sizeof sum);
  std::memcpy(&sum, bytes.data() + body.size(), sizeof sum);
  if (sum != XXH3_64bits(body.data(), body.size()))
    throw InputError(path.string(), "", "is damaged: its checksum does not match");
  try {
    return read_states(body);
  } catch (const RuntimeFault& fault) {
    throw InputError(path.string(), "", fault.what());
  }
}

CodecStates restore(const std::filesystem::path& path, std::span<const std::string> names) {
  CodecStates states = restore(path);
  for (const std::string& name : names)
    if (!states.tensors.contains(name)) throw InputError(path.string(), name, "has no compression state here");
  for (const auto& [name, state] : states.tensors)
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw InputError(path.string(), name, "has a compression state, but the run knows no such tensor");
  return states;
}

}  // namespace fusion::compress
