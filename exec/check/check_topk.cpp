// Top-k on the GPU against the CPU, bit for bit.
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "core/compress/topk.h"
#include "exec/check/cases.h"
#include "exec/check/device.h"
#include "exec/check/report.h"
#include "exec/compress_cuda.h"

namespace fusion::exec {
namespace {

using compress::Selection;

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

/// One tensor's workspace and results on the device.
template <class T>
class GpuTopk {
 public:
  GpuTopk(std::uint64_t n, std::uint64_t k)
      : plan_(plan_top_k<T>(n, k)), workspace_(plan_.workspace_bytes), index_(k), value_(k), result_(1) {
    workspace_.poison();
    reset_top_k(plan_, workspace_.data(), nullptr);
  }

  Selection run(const T* x, const float* residual, float* next_residual) {
    index_.poison();
    value_.poison();
    result_.poison();
    top_k<T>(plan_, {x, residual, next_residual, index_.data(), value_.data(), result_.data()}, workspace_.data(),
             nullptr);
    const TopkResult result = result_.download().front();
    Selection out;
    out.elements = plan_.n;
    out.threshold = result.threshold;
    if (result.has_not_finite) out.not_finite = result.first_not_finite;
    if (result.count > plan_.k) return out;  // shows as a difference
    out.index = index_.download(result.count);
    out.value = value_.download(result.count);
    return out;
  }

 private:
  TopkPlan plan_;
  DeviceArray<std::byte> workspace_;
  DeviceArray<std::uint64_t> index_;
  DeviceArray<float> value_;
  DeviceArray<TopkResult> result_;
};

bool same(const Selection& a, const Selection& b) {
  return a.not_finite == b.not_finite && a.index == b.index && same_bits(a.value, b.value) &&
         std::bit_cast<std::uint32_t>(a.threshold) == std::bit_cast<std::uint32_t>(b.threshold);
}

/// Cold, and again with the threshold of the first call.
template <class T>
void check_plain(Checks& checks, const std::string& what, std::span<const T> x, std::uint64_t k) {
  Selection want;
  compress::TopkWorkspace workspace;
  compress::top_k<T>(x, k, want, workspace);
  const DeviceArray<T> on_device(x);
  GpuTopk<T> gpu(x.size(), k);
  for (const char* state : {" cold", " warm", " warm again"})
    checks.expect(same(gpu.run(on_device.data(), nullptr, nullptr), want), "top-k " + what + state);
}

/// Three steps, the residual of each fed to the next.
void check_feedback(Checks& checks, const std::string& what, std::span<const float> x, std::uint64_t k) {
  std::vector<float> residual(x.size()), next(x.size());
  Selection want;
  compress::TopkWorkspace workspace;
  const DeviceArray<float> on_device(x);
  DeviceArray<float> gpu_residual{std::span<const float>(residual)}, gpu_next(x.size());
  float *from = gpu_residual.data(), *to = gpu_next.data();
  GpuTopk<float> gpu(x.size(), k);
  for (int step = 0; step < 3; ++step) {
    compress::top_k_feedback<float>(x, residual, next, k, want, workspace, {.hint = want.threshold});
    checks.expect(same(gpu.run(on_device.data(), from, to), want), "top-k with feedback " + what);
    std::swap(from, to);
    if (!want.not_finite) residual.swap(next);
    const auto left = (step % 2 == 0 ? gpu_next : gpu_residual).download();
    checks.expect(same_bits(left, residual), "residual " + what);
  }
}

template <class T, class Narrow>
void check_narrow(Checks& checks, const std::string& what, std::span<const float> x, std::uint64_t k, Narrow narrow) {
  std::vector<T> narrowed(x.size());
  std::transform(x.begin(), x.end(), narrowed.begin(), narrow);
  check_plain<T>(checks, what, narrowed, k);
}

void check_size(Checks& checks, std::uint64_t n, bool every_kind) {
  for (const Case& made : cases()) {
    const std::vector<float> x = make_tensor(made, n);
    for (const std::uint64_t k : {n / 1000, n / 100, n / 10}) {
      const std::string what = std::string(made.name) + " n " + std::to_string(n) + " k " + std::to_string(k);
      check_plain<float>(checks, what, x, k);
      if (k == n / 100) check_feedback(checks, what, x, k);
      if (!every_kind) continue;
      check_narrow<compress::BFloat16>(checks, what + " bf16", x, k, compress::to_bfloat16);
      check_narrow<compress::Half>(checks, what + " fp16", x, k, compress::to_half);
      std::vector<float> spoilt = x;
      for (std::uint64_t i = n / 3; i < n; i += n / 7 + 1) spoilt[i] = std::numeric_limits<float>::infinity();
      spoilt[n / 2] = std::numeric_limits<float>::quiet_NaN();
      check_feedback(checks, what + " not finite", spoilt, k);
    }
  }
}

}  // namespace

void check_topk(Checks& checks, bool quick) {
  for (const std::uint64_t n : {1u, 31u, 1'000u, 8'193u}) {
    const std::vector<float> x = make_tensor(cases()[0], n);
    for (const std::uint64_t k : {std::uint64_t{0}, n / 2, n}) {
      check_plain<float>(checks, "n " + std::to_string(n), x, k);
      check_feedback(checks, "n " + std::to_string(n), x, k);
    }
  }
  check_size(checks, 1 << 20, true);
  if (quick) return;
  check_size(checks, 16'777'216 + 3, false);
  const std::vector<float> x = make_tensor(cases()[0], 100'000'000);
  for (const std::uint64_t k : {100'000u, 1'000'000u, 10'000'000u})
    check_plain<float>(checks, "gaussian n 100000000 k " + std::to_string(k), x, k);
  check_feedback(checks, "gaussian n 100000000", x, 1'000'000);
}

}  // namespace fusion::exec
