// Blockwise integers on the GPU against the CPU, bit for bit.
#include <bit>
#include <limits>
#include <string>

#include "core/compress/quantise.h"
#include "exec/check/cases.h"
#include "exec/check/device.h"
#include "exec/check/report.h"
#include "exec/compress_cuda.h"

namespace fusion::exec {
namespace {

using compress::PositionalRandom;

struct Kind {
  std::string name;
  compress::BlockFormat format;
  void (*quantise)(const QuantiseCall&, CudaStream);
  void (*dequantise)(const DequantiseCall&, CudaStream);
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

void check_kind(Checks& checks, const std::string& what, const Kind& kind, const std::vector<float>& x,
                const std::optional<PositionalRandom>& random) {
  std::vector<std::byte> want;
  std::vector<float> want_decoded(x.size());
  compress::write_blocks(x, kind.format, random, want, want_decoded);
  const std::size_t num_scales = (x.size() + kind.format.block - 1) / kind.format.block;
  const DeviceArray<float> on_device{std::span<const float>(x)};
  DeviceArray<std::byte> payload(want.size());
  DeviceArray<float> decoded(x.size()), back(x.size());
  DeviceArray<unsigned long long> not_finite(1);
  DeviceArray<std::uint32_t> invalid(1);
  payload.poison();
  decoded.poison();
  back.poison();
  auto* scales = reinterpret_cast<float*>(payload.data());
  auto* codes = reinterpret_cast<std::uint8_t*>(payload.data() + num_scales * sizeof(float));
  kind.quantise({on_device.data(), x.size(), scales, codes, decoded.data(), not_finite.data(), random.has_value(),
                 random ? random->key : 0},
                nullptr);
  checks.expect(payload.download() == want, kind.name + " payload " + what);
  checks.expect(same_bits(decoded.download(), want_decoded), kind.name + " decoded " + what);
  checks.expect(not_finite.download().front() == 0, kind.name + " finite " + what);
  kind.dequantise({scales, codes, x.size(), back.data(), invalid.data()}, nullptr);
  checks.expect(same_bits(back.download(), want_decoded) && invalid.download().front() == 0,
                kind.name + " back " + what);
}

}  // namespace

void check_quantise(Checks& checks, bool quick) {
  const Kind kinds[] = {{"int8", compress::int8_blocks, quantise_int8, dequantise_int8},
                        {"int4", compress::int4_blocks, quantise_int4, dequantise_int4}};
  std::vector<std::uint64_t> sizes{1, 33, 1'000, (1 << 20) + 5};
  if (!quick) sizes.push_back(16'777'219);
  for (const std::uint64_t n : sizes)
    for (const Case& made : cases()) {
      const std::vector<float> x = make_tensor(made, n);
      for (const Kind& kind : kinds) {
        const std::string what = std::string(made.name) + " n " + std::to_string(n);
        check_kind(checks, what, kind, x, {});
        check_kind(checks, what + " at random", kind, x, PositionalRandom(7, n));
      }
    }
}

}  // namespace fusion::exec
