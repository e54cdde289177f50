// Scatter and the byte-delta format on the GPU against the CPU, bit for bit.
#include <algorithm>
#include <bit>
#include <numeric>
#include <string>

#include "core/compress/index_format.h"
#include "core/compress/topk.h"
#include "exec/check/cases.h"
#include "exec/check/device.h"
#include "exec/check/report.h"
#include "exec/compress_cuda.h"

namespace fusion::exec {
namespace {

using compress::IndexFormat;

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

void check_scatter(Checks& checks, const std::string& what, const compress::Selection& chosen) {
  const DeviceArray<std::uint64_t> index{std::span<const std::uint64_t>(chosen.index)};
  const DeviceArray<float> value{std::span<const float>(chosen.value)};
  const std::vector<std::uint64_t> count_here{chosen.index.size()};
  const DeviceArray<std::uint64_t> count{std::span<const std::uint64_t>(count_here)};
  DeviceArray<float> tensor(chosen.elements);
  tensor.poison();
  std::vector<float> want(chosen.elements);
  for (std::size_t i = 0; i < chosen.index.size(); ++i) want[chosen.index[i]] = chosen.value[i];
  scatter_into_zeros(index.data(), value.data(), count.data(), tensor.data(), chosen.elements, nullptr);
  checks.expect(same_bits(tensor.download(), want), "scatter " + what);
  for (std::size_t i = 0; i < chosen.index.size(); ++i) want[chosen.index[i]] += chosen.value[i];
  scatter_add(index.data(), value.data(), count.data(), tensor.data(), nullptr);
  checks.expect(same_bits(tensor.download(), want), "scatter-add " + what);
}

void check_byte_delta(Checks& checks, const std::string& what, const compress::Selection& chosen) {
  const std::uint64_t k = chosen.index.size(), n = chosen.elements;
  std::vector<std::byte> want;
  compress::write_index(IndexFormat::byte_delta, chosen.index, n, n, want);
  const DeviceArray<std::uint64_t> index{std::span<const std::uint64_t>(chosen.index)};
  const std::vector<std::uint64_t> count_here{k};
  const DeviceArray<std::uint64_t> count{std::span<const std::uint64_t>(count_here)};
  DeviceArray<std::uint8_t> bytes(byte_delta_capacity(k, n));
  DeviceArray<std::uint64_t> size(1), back(k);
  DeviceArray<std::uint32_t> valid(1);
  DeviceArray<unsigned long long> totals(byte_delta_workspace_bytes() / sizeof(unsigned long long));
  bytes.poison();
  pack_byte_delta({index.data(), count.data(), n, bytes.data(), size.data(), totals.data()}, nullptr);
  const std::uint64_t size_here = size.download().front();
  checks.expect(size_here == want.size(), "byte-delta size " + what);
  if (size_here != want.size()) return;
  const auto got = bytes.download(size_here);
  checks.expect(std::equal(got.begin(), got.end(), want.begin(),
                           [](std::uint8_t a, std::byte b) { return a == std::to_integer<std::uint8_t>(b); }),
                "byte-delta bytes " + what);
  back.poison();
  unpack_byte_delta({bytes.data(), size_here, k, n, back.data(), valid.data(), totals.data()}, nullptr);
  checks.expect(valid.download().front() == 1 && back.download() == chosen.index, "byte-delta back " + what);
}

}  // namespace

void check_sparse(Checks& checks, bool quick) {
  compress::TopkWorkspace workspace;
  compress::Selection chosen;
  std::vector<std::uint64_t> sizes{1, 1'000, 1 << 20};
  if (!quick) sizes.push_back(16'777'219), sizes.push_back(100'000'000);
  for (const std::uint64_t n : sizes)
    for (const Case& made : cases().first(2)) {
      const std::vector<float> x = make_tensor(made, n);
      for (const std::uint64_t k : {n / 10'000, n / 100, n / 10}) {
        compress::top_k<float>(x, k, chosen, workspace);
        const std::string what = std::string(made.name) + " n " + std::to_string(n) + " k " + std::to_string(k);
        check_scatter(checks, what, chosen);
        check_byte_delta(checks, what, chosen);
      }
    }
}

}  // namespace fusion::exec
