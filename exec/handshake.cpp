#include "exec/handshake.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <bit>
#include <cstring>
#include <sstream>

#include "core/report/version.h"

namespace fusion::exec {
namespace {

constexpr const char* protocol_version = "1";
constexpr MessageTag claim_tag{control_channel + 1, 0, 0}, verdict_tag{control_channel + 2, 0, 0};

/// A canonical serialisation, hashed as it is made: numbers as 8 bytes, lists and texts behind their length.
class Hasher {
 public:
  Hasher() { XXH3_64bits_reset(&state_); }

  Hasher& operator<<(std::uint64_t number) {
    XXH3_64bits_update(&state_, &number, sizeof number);
    return *this;
  }
  Hasher& operator<<(std::int64_t number) { return *this << static_cast<std::uint64_t>(number); }
  Hasher& operator<<(int number) { return *this << static_cast<std::int64_t>(number); }
  Hasher& operator<<(bool flag) { return *this << std::uint64_t{flag}; }
  Hasher& operator<<(double number) { return *this << std::bit_cast<std::uint64_t>(number); }
  Hasher& operator<<(const std::string& text) {
    *this << std::uint64_t{text.size()};
    XXH3_64bits_update(&state_, text.data(), text.size());
    return *this;
  }
  template <class Tag>
  Hasher& operator<<(Id<Tag> id) {
    return *this << std::uint64_t{id.value};
  }
  Hasher& operator<<(Bytes bytes) { return *this << bytes.value; }
  template <class T>
  Hasher& operator<<(const std::vector<T>& list) {
    *this << std::uint64_t{list.size()};
    for (const T& one : list) *this << one;
    return *this;
  }
  template <class E>
  requires std::is_enum_v<E> Hasher& operator<<(E kind) { return *this << static_cast<std::uint64_t>(kind); }

  std::string hex() const {
    std::array<char, 17> text{};
    std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(XXH3_64bits_digest(&state_)));
    return text.data();
  }

 private:
  XXH3_state_t state_;
};

Hasher& operator<<(Hasher& hash, const Stage& stage) { return hash << stage.device << stage.replica << stage.ops; }
Hasher& operator<<(Hasher& hash, const Step& step) { return hash << step.task << std::uint64_t{step.micro_batch}; }
Hasher& operator<<(Hasher& hash, const DeviceProgram& one) {
  hash << one.device << std::uint64_t{one.steps.size()};
  for (const Step step : one.steps) hash << step;
  return hash;
}

Hasher& operator<<(Hasher& hash, const Task& task) {
  const Payload& payload = task.payload;
  hash << task.kind << task.phase << task.per_micro_batch << task.device << task.stage << task.after;
  hash << task.peer << task.match << task.codec.kind << task.codec.ratio << task.bytes << task.dense_bytes;
  return hash << payload.kind << payload.tensor << payload.parameters << payload.begin << payload.end << payload.name;
}

Hasher& operator<<(Hasher& hash, const Attribute& attribute) {
  hash << attribute.name << std::uint64_t{attribute.value.index()};
  std::visit([&](const auto& value) { hash << value; }, attribute.value);
  return hash;
}
Hasher& operator<<(Hasher& hash, const Op& op) {
  return hash << op.name << op.kind << op.inputs << op.outputs << op.parameters << op.attributes;
}
Hasher& operator<<(Hasher& hash, const Tensor& tensor) {
  return hash << tensor.name << tensor.shape << tensor.dtype << tensor.producer << tensor.needs_gradient;
}
Hasher& operator<<(Hasher& hash, const Parameter& parameter) {
  return hash << parameter.name << parameter.shape << parameter.users;
}

struct Row {
  std::string_view name;
  std::string Identity::*value;
  std::string_view remedy;
};
constexpr std::array rows = {
    Row{"protocol", &Identity::protocol, "install the same build everywhere"},
    Row{"build", &Identity::build, "install the same build everywhere"},
    Row{"ranks", &Identity::ranks, "give every rank the same plan"},
    Row{"dtype", &Identity::dtype, "give every rank the same plan and model file"},
    Row{"model", &Identity::model_hash, "give every rank the same model file"},
    Row{"program", &Identity::program_hash, "give every rank the same plan and options"},
};

/// "name\tvalue\n" for each row: builds with other rows can still read it.
std::vector<std::byte> to_bytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
std::string to_text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string claim_of(const Identity& identity) {
  std::string text;
  for (const Row& row : rows) text += std::string(row.name) + "\t" + identity.*row.value + "\n";
  return text;
}

Identity read_claim(const std::string& text) {
  Identity identity;
  for (const Row& row : rows) identity.*row.value = "absent";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    for (const Row& row : rows)
      if (line.starts_with(std::string(row.name) + "\t")) identity.*row.value = line.substr(row.name.size() + 1);
  return identity;
}

/// "KEY\tMESSAGE", or nothing.
std::string difference(const Identity& first, const Identity& other, int rank) {
  for (const Row& row : rows)
    if (first.*row.value != other.*row.value)
      return std::string(row.name) + "\trank 0 has " + first.*row.value + ", rank " + std::to_string(rank) + " has " +
             other.*row.value + "; " + std::string(row.remedy);
  return {};
}

/// Rank 0's: the first difference, by rank.
std::string judge(Transport& transport, const Identity& mine) {
  std::string verdict;
  for (int rank = 1; rank < transport.num_ranks(); ++rank) {
    const auto claim = transport.receive(rank, claim_tag, "the handshake");
    if (verdict.empty()) verdict = difference(mine, read_claim(to_text(claim)), rank);
  }
  if (verdict.empty() && mine.ranks != std::to_string(transport.num_ranks()))
    verdict = "ranks\tthe plan is for " + mine.ranks + " ranks, " + std::to_string(transport.num_ranks()) +
              " were started; start " + mine.ranks + " (mpirun -np " + mine.ranks + ")";
  return verdict;
}

}  // namespace

std::string program_hash(const Program& program) {
  const RunInfo& info = program.info;
  Hasher hash;
  hash << info.model << info.order << info.seed << info.micro_batches << info.samples << info.tokens;
  hash << program.stages << program.tasks << program.devices;
  return hash.hex();
}

std::string model_hash(const Graph& graph) {
  Hasher hash;
  hash << graph.name << graph.micro_batch << graph.tokens_per_sample << graph.dtype;
  hash << graph.ops << graph.tensors << graph.parameters;
  return hash.hex();
}

std::string network_hash(const Graph& graph) {
  Hasher hash;
  hash << graph.name << graph.tokens_per_sample << graph.dtype << graph.parameters << std::uint64_t{graph.ops.size()};
  for (Op op : graph.ops) {
    for (Attribute& attribute : op.attributes)  // dimension 0 of a shape depends on B
      if (auto* shape = std::get_if<Shape>(&attribute.value); shape != nullptr && attribute.name == "shape")
        shape->front() = 0;
    hash << op;
  }
  return hash.hex();
}

Identity identity_of(const Program& program, const Graph& graph) {
  return {protocol_version,
          std::string(version()),
          std::to_string(program.devices.size()),
          std::string(name_of(graph.dtype)),
          model_hash(graph),
          program_hash(program)};
}

void handshake(Transport& transport, const Identity& mine) {
  std::string verdict;
  if (transport.rank() == 0) {
    verdict = judge(transport, mine);
    for (int rank = 1; rank < transport.num_ranks(); ++rank) transport.send(rank, verdict_tag, to_bytes(verdict));
  } else {
    transport.send(0, claim_tag, to_bytes(claim_of(mine)));
    verdict = to_text(transport.receive(0, verdict_tag, "the handshake"));
  }
  if (verdict.empty()) return;
  const auto tab = verdict.find('\t');
  throw InputError("", verdict.substr(0, tab), verdict.substr(tab + 1));
}

}  // namespace fusion::exec
