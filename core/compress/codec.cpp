#include "core/compress/codec.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/compress/codec_rows.h"

namespace fusion::compress {
namespace {

constexpr std::size_t checksum_offset = 24;

struct Envelope {
  std::array<char, 4> magic{'F', 'L', 'N', 'C'};
  std::uint8_t version = 1, method = 0;
  std::uint16_t zero = 0;
  std::uint64_t elements = 0, step = 0, checksum = 0;
};
static_assert(sizeof(Envelope) == envelope_bytes);

[[noreturn]] void bad(std::string_view tensor, const std::string& what) {
  throw RuntimeFault("coded tensor \"" + std::string(tensor) + "\": " + what);
}

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits_withSeed(bytes.data() + envelope_bytes, bytes.size() - envelope_bytes,
                              XXH3_64bits(bytes.data(), checksum_offset));
}

void require_shape(std::string_view tensor, const Shape& shape, const TensorState& state) {
  if (state.step > 0 && state.shape != shape)
    throw InputError("", tensor,
                     "has shape " + to_string(shape) + ", but its compression state is of " + to_string(state.shape) +
                         "; a tensor that changes needs a name of its own");
}

void require_finite(std::string_view tensor, std::span<const float> x, const MethodOptions& options) {
  if (kernels(options.target).max_magnitude(x.data(), x.size()) < infinity_bits) return;
  const auto found = std::find_if(x.begin(), x.end(), [](float v) { return !std::isfinite(v); });
  throw NotFinite(tensor, static_cast<std::uint64_t>(found - x.begin()));
}

/// x + residual, or x itself where there is none.
std::span<const float> with_residual(std::span<const float> x, const TensorState& state, bool feedback,
                                     CodecWorkspace& ws) {
  if (!feedback || state.residual.empty()) return x;
  ws.sum.reserve(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) ws.sum.data()[i] = x[i] + state.residual[i];
  return ws.sum.first(x.size());
}

void keep_residual(std::span<const float> x, std::span<const float> decoded, TensorState& state) {
  state.residual.resize(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) state.residual[i] = x[i] - decoded[i];
}

void encode_in_steps(const MethodRow& row, std::string_view tensor, std::span<const float> x, const Shape& shape,
                     bool feedback, const MethodOptions& options, TensorState& state, CodecWorkspace& ws,
                     std::vector<std::byte>& out) {
  const auto y = with_residual(x, state, feedback, ws);
  require_finite(tensor, y, options);
  state.shape = shape;
  const std::size_t wanted = row.feedback || row.reference ? x.size() : 0;
  ws.decoded.reserve(wanted);
  const auto decoded = ws.decoded.first(wanted);
  row.encode(y, options, state, ws, out, decoded);
  if (feedback) keep_residual(y, decoded, state);
  if (row.reference) state.reference.assign(decoded.begin(), decoded.end());
}

Envelope read_envelope(std::string_view tensor, std::span<const std::byte> bytes) {
  Envelope e;
  if (bytes.size() < envelope_bytes) bad(tensor, std::to_string(bytes.size()) + " bytes are too few for a header");
  std::memcpy(&e, bytes.data(), envelope_bytes);
  if (e.magic != Envelope{}.magic) bad(tensor, "it does not begin with FLNC");
  if (e.version != 1) bad(tensor, "version " + std::to_string(e.version) + ", only 1 is known");
  if (e.checksum != checksum(bytes)) bad(tensor, "the checksum does not match");
  return e;
}

}  // namespace

NotFinite::NotFinite(std::string_view tensor, std::uint64_t at)
    : RuntimeFault("tensor \"" + std::string(tensor) + "\" is not finite at element " + std::to_string(at) +
                   "; it was not sent and its compression state is unchanged"),
      index(at) {}

std::span<const MethodRow> method_table() {
  static const std::array table{rows::none,    rows::fp16,      rows::bf16,      rows::int8,          rows::int4,
                                rows::topk,    rows::random_k,  rows::threshold, rows::sign,          rows::qsgd,
                                rows::natural, rows::power_sgd, rows::aq,        rows::hadamard_int4, rows::dct_topk};
  return table;
}

const MethodRow& row_of(Method method) { return method_table()[static_cast<std::size_t>(method)]; }

const MethodRow* find_method(std::string_view name) {
  const auto table = method_table();
  const auto found = std::find_if(table.begin(), table.end(), [&](const MethodRow& r) { return r.name == name; });
  return found == table.end() ? nullptr : &*found;
}

WireSize wire_size(Method method, const Shape& shape, const MethodOptions& options) {
  WireSize size = row_of(method).payload_size(shape, options);
  size.expected += envelope_bytes;
  size.most += envelope_bytes;
  return size;
}

void encode(Method method, std::string_view tensor, std::span<const float> x, const Shape& shape,
            const MethodOptions& options, TensorState& state, CodecWorkspace& ws, std::vector<std::byte>& out) {
  const MethodRow& row = row_of(method);
  check(x.size() == elements_of(shape), "a tensor of another size than its shape");
  require_shape(tensor, shape, state);
  const bool feedback = row.feedback && options.feedback;
  out.assign(envelope_bytes, std::byte{0});
  if (row.fused) {
    if (const auto at = row.fused(x, shape, feedback, options, state, ws, out)) throw NotFinite(tensor, *at);
  } else {
    encode_in_steps(row, tensor, x, shape, feedback, options, state, ws, out);
  }
  state.shape = shape;
  Envelope e;
  e.method = static_cast<std::uint8_t>(method);
  e.elements = x.size();
  e.step = state.step;
  ++state.step;
  std::memcpy(out.data(), &e, envelope_bytes);
  seal(out);
}

void seal(std::span<std::byte> envelope) {
  const std::uint64_t sum = checksum(envelope);
  std::memcpy(envelope.data() + checksum_offset, &sum, 8);
}

void decode(Method method, std::string_view tensor, std::span<const std::byte> bytes, const Shape& shape,
            TensorState& state, CodecWorkspace& ws, std::span<float> out) {
  const Envelope e = read_envelope(tensor, bytes);
  require_shape(tensor, shape, state);
  if (e.zero != 0) bad(tensor, "reserved bytes are not zero");
  if (e.method != static_cast<std::uint8_t>(method))
    bad(tensor, "it is of another codec than " + std::string(row_of(method).name));
  if (e.elements != out.size() || out.size() != elements_of(shape))
    bad(tensor, std::to_string(e.elements) + " elements for a tensor of " + std::to_string(out.size()));
  if (e.step != state.step)
    bad(tensor, "it is step " + std::to_string(e.step) + " of its sender, and step " + std::to_string(state.step) +
                    " is due: a message was lost, or a state was not restored");
  const MethodRow& row = row_of(method);
  state.shape = shape;
  row.decode(bytes.subspan(envelope_bytes), e.step, state, ws, out);
  if (kernels(best_target()).max_magnitude(out.data(), out.size()) >= infinity_bits)
    bad(tensor, "a value is not finite");
  if (row.reference) state.reference.assign(out.begin(), out.end());
  ++state.step;
}

}  // namespace fusion::compress
