// The CUDA kernel for top-k, run thread by thread, against the CPU's: the same bits, whatever the order of blocks and
// threads, at sizes beyond one warp, one tile and one block.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/compress/topk.h"
#include "tests/support/cuda_emulator.h"
// The kernel takes its names from the emulator.
#include "exec/kernels/topk.cuh"

namespace fusion::exec {
namespace {

using compress::BFloat16;
using compress::Half;
using compress::Selection;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float poison = -12345.5f;

std::vector<std::uint32_t> bits(const std::vector<float>& x) {
  std::vector<std::uint32_t> out(x.size());
  std::transform(x.begin(), x.end(), out.begin(), [](float v) { return std::bit_cast<std::uint32_t>(v); });
  return out;
}

/// A tensor's top-k on the emulated device: keeps its workspace, and so its hint, from call to call.
template <class T>
class EmulatedTopk {
 public:
  EmulatedTopk(std::uint64_t n, std::uint64_t k, unsigned blocks)
      : n_(n), k_(std::min(n, k)), blocks_(blocks), workspace_(topk_layout(n, k_, blocks).end / 16 + 1) {
    std::memset(workspace_.data(), 0x5a, workspace_.size() * 16);
    std::memset(workspace_.data(), 0, sizeof(TopkCells));
  }

  /// `residual` and `next` are empty where there is no error feedback.
  Selection run(const T* x, const std::vector<float>& residual, std::vector<float>& next, std::uint64_t seed) {
    constexpr std::size_t beyond = 3;  // elements that must stay as they are
    std::vector<std::uint64_t> index(k_ + beyond, 77);
    std::vector<float> value(k_ + beyond, poison);
    TopkCall<T> call;
    call.x = x;
    call.n = n_;
    call.k = k_;
    if (!residual.empty()) {
      call.residual = residual.data();
      call.next_residual = next.data();
    }
    TopkResult result{99, 99, 99, 99};
    call.index = index.data();
    call.value = value.data();
    call.result = &result;
    prepare_topk(call, reinterpret_cast<std::byte*>(workspace_.data()), blocks_);
    emulator::launch(TopkKernel<T>{call}, blocks_, seed);
    for (std::size_t i = result.count; i < index.size(); ++i)
      EXPECT_TRUE(index[i] == 77 && value[i] == poison) << "element " << i << " beyond the result was written";
    return selection(result, index, value);
  }

  void hint(float threshold) { cells().hint = std::bit_cast<std::uint32_t>(threshold); }
  float hint() { return std::bit_cast<float>(cells().hint); }
  const TopkCells& cells_left() { return cells(); }

 private:
  struct alignas(16) Line {
    std::byte bytes[16];
  };
  TopkCells& cells() { return *reinterpret_cast<TopkCells*>(workspace_.data()); }

  Selection selection(const TopkResult& result, std::vector<std::uint64_t>& index, std::vector<float>& value) const {
    Selection out;
    out.elements = n_;
    index.resize(result.count);
    value.resize(result.count);
    out.index = index;
    out.value = value;
    out.threshold = result.threshold;
    if (result.has_not_finite) out.not_finite = result.first_not_finite;
    return out;
  }

  std::uint64_t n_, k_;
  unsigned blocks_;
  std::vector<Line> workspace_;
};

void expect_same(const Selection& got, const Selection& want, const std::string& what) {
  ASSERT_EQ(got.not_finite, want.not_finite) << what;
  ASSERT_EQ(got.index, want.index) << what;
  ASSERT_EQ(bits(got.value), bits(want.value)) << what;
  ASSERT_EQ(std::bit_cast<std::uint32_t>(got.threshold), std::bit_cast<std::uint32_t>(want.threshold)) << what;
}

template <class T>
Selection on_cpu(const std::vector<T>& x, std::uint64_t k) {
  Selection out;
  compress::TopkWorkspace workspace;
  compress::top_k<T>(x, k, out, workspace);
  return out;
}

/// Shapes on which a sample or last call's threshold misleads, ties, and special values.
std::vector<float> shaped(int shape, std::size_t n, std::mt19937_64& rng) {
  std::vector<float> x(n);
  std::normal_distribution<float> normal;
  for (float& v : x) v = normal(rng);
  if (n == 0) return x;
  switch (shape) {
    case 0:
      break;
    case 1:
      std::sort(x.begin(), x.end(), [](float a, float b) { return std::abs(a) > std::abs(b); });
      break;
    case 2:
      std::fill(x.begin(), x.end(), -2.5f);
      break;
    case 3:
      for (std::size_t i = 0; i < n; ++i) x[i] = i % 3 == 0 ? 1.0f : i % 3 == 1 ? -1.0f : 0.5f;
      break;
    case 4:
      std::fill(x.begin(), x.end(), 0.0f);
      x[n / 2] = 1;
      break;
    case 5:
      for (float& v : x) v *= 1e-42f;  // subnormal
      break;
    case 6:
      for (std::size_t i = 0; i < n; ++i) x[i] *= i < n / 50 ? 1000.0f : 1.0f;  // all in one place
      break;
    case 7:
      for (std::size_t i = 0; i < n; ++i) x[i] = 1 + static_cast<float>(i) * 1e-6f;
      break;
    case 8:
      for (std::size_t i = 0; i < n; ++i) x[i] = std::ldexp(1.0f, static_cast<int>(i % 250) - 125);
      break;
    case 9:
      for (float& v : x) v = rng() % 4 ? 0.0f : v;
      break;
    case 10:
      for (float& v : x) v = rng() % 2 ? 0.0f : -0.0f;
      break;
    default:
      for (float& v : x) v = std::bit_cast<float>(static_cast<std::uint32_t>(rng()) & 0xbf7fffffu);  // any finite
  }
  return x;
}
constexpr int num_shapes = 12;

std::vector<std::size_t> ks(std::size_t n) { return {0, 1, n / 100, n / 7, n - n / 50, n}; }

TEST(CudaTopk, AgreesWithTheCpuInEveryOrderOfBlocksAndThreads) {
  std::mt19937_64 rng(1);
  std::vector<float> none;
  std::uint64_t seed = 0;
  for (const std::size_t n : {0u, 1u, 31u, 1000u, 8192u, 8193u, 33'000u})
    for (int shape = 0; shape < num_shapes; ++shape) {
      const auto x = shaped(shape, n, rng);
      for (std::size_t i = n < 2000 ? 0 : seed % 3; i < 6;
           i += n < 2000 ? 1 : 3) {  // the larger with a third of the ks
        const std::size_t k = ks(n)[i];
        const unsigned blocks = 1 + static_cast<unsigned>(seed % 4);
        EmulatedTopk<float> topk(n, k, blocks);
        const Selection got = topk.run(x.data(), {}, none, seed++);
        expect_same(got, on_cpu(x, k),
                    "shape " + std::to_string(shape) + " n " + std::to_string(n) + " k " + std::to_string(k) +
                        " blocks " + std::to_string(blocks));
        if (HasFatalFailure()) return;
      }
    }
}

TEST(CudaTopk, TheHintChangesNothing) {
  std::mt19937_64 rng(2);
  std::vector<float> none;
  for (int shape = 0; shape < num_shapes; ++shape) {
    const auto x = shaped(shape, 10'000, rng);
    for (const std::size_t k : {100u, 3'500u}) {
      const Selection want = on_cpu(x, k);
      EmulatedTopk<float> topk(x.size(), k, 3);
      for (const float factor : {1.0f, 2.0f, 0.01f, 1e9f}) {
        const Selection got = topk.run(x.data(), {}, none, rng());
        expect_same(got, want, "shape " + std::to_string(shape) + " factor " + std::to_string(factor));
        if (HasFatalFailure()) return;
        ASSERT_EQ(topk.hint(), want.threshold) << "what was kept is the next call's hint";
        topk.hint(topk.hint() * factor);
      }
    }
  }
}

TEST(CudaTopk, OneWorkspaceServesStepAfterStep) {
  // As in training: the tensor changes a little or much, and now and then holds what is not finite.
  std::mt19937_64 rng(3);
  std::normal_distribution<float> normal;
  EmulatedTopk<float> topk(20'000, 200, 4);
  std::vector<float> x(20'000), residual(x.size()), next(x.size());
  std::vector<float> residual_cpu(x.size()), next_cpu(x.size());
  compress::TopkWorkspace workspace;
  Selection want;
  for (int step = 0; step < 40; ++step) {
    const float scale = std::ldexp(1.0f, static_cast<int>(rng() % 5) - 2);
    for (float& v : x) v = scale * normal(rng);
    if (step % 7 == 3) x[rng() % x.size()] = step % 2 ? nan : -inf;
    compress::top_k_feedback<float>(x, residual_cpu, next_cpu, 200, want, workspace);
    std::fill(next.begin(), next.end(), poison);
    const Selection got = topk.run(x.data(), residual, next, rng());
    expect_same(got, want, "step " + std::to_string(step));
    if (HasFatalFailure()) return;
    if (!want.not_finite) residual_cpu.swap(next_cpu);  // the CPU leaves the choice to its caller
    residual.swap(next);                                // the kernel has put the old one there
    ASSERT_EQ(bits(residual), bits(residual_cpu)) << "step " << step;
  }
}

TEST(CudaTopk, FindsTheFirstValueThatIsNotFinite) {
  std::mt19937_64 rng(4);
  for (int shape = 0; shape < num_shapes; ++shape)
    for (const std::size_t n : {3'000u, 20'000u})  // the smaller is not sampled, and leaves two blocks without work
      for (const std::size_t k : {std::size_t{0}, std::size_t{1}, n / 50, n}) {
        auto x = shaped(shape, n, rng);
        const std::size_t at = rng() % n;
        for (std::size_t i = at; i < n; i += 1000) x[i] = inf;
        x[at] = shape % 2 ? nan : -inf;
        std::vector<float> residual(n, 0.25f), next(n, poison);
        EmulatedTopk<float> topk(n, k, 3);
        if (shape % 3 == 0) topk.hint(shape % 2 ? 1e30f : 1e-3f);
        const Selection got = topk.run(x.data(), residual, next, rng());
        ASSERT_EQ(got.not_finite, at) << "shape " << shape << " n " << n << " k " << k;
        ASSERT_TRUE(got.index.empty() && got.value.empty());
        ASSERT_EQ(bits(next), bits(residual)) << "the residual stays as it was";
      }
}

TEST(CudaTopk, ReportsASumThatOverflows) {
  // Both terms are finite; 3e38 + 3e38 is beyond fp32.
  const std::vector<float> x{1, 3e38f, 2}, residual{1, 3e38f, 2};
  std::vector<float> next(3, poison);
  EmulatedTopk<float> topk(3, 1, 1);
  EXPECT_EQ(topk.run(x.data(), residual, next, 0).not_finite, 1u);
  EXPECT_EQ(next, residual);
}

TEST(CudaTopkFeedback, ResidualIsWhatWasNotSelected) {
  std::mt19937_64 rng(5);
  std::normal_distribution<float> normal;
  for (int shape = 0; shape < num_shapes; ++shape)
    for (const std::size_t n : {1u, 100u, 17'001u})
      for (const std::size_t k : {n / 100, n / 2, n}) {
        const auto x = shaped(shape, n, rng);
        std::vector<float> residual(n), next(n, poison), want_next(n);
        for (float& e : residual) e = shape % 2 || rng() % 4 == 0 ? 0.0f : normal(rng);
        Selection want;
        compress::TopkWorkspace workspace;
        compress::top_k_feedback<float>(x, residual, want_next, k, want, workspace);
        EmulatedTopk<float> topk(n, k, 3);
        if (rng() % 3 == 0) topk.hint(rng() % 2 ? 1.0f : 1e9f);
        expect_same(topk.run(x.data(), residual, next, rng()), want, "shape " + std::to_string(shape));
        ASSERT_EQ(bits(next), bits(want_next)) << "shape " << shape << " n " << n << " k " << k;
      }
}

TEST(CudaTopk, TakesTensorsAtAnyAddress) {
  // Views of tensors start anywhere: loads of 16 bytes are not for them.
  std::mt19937_64 rng(6);
  const auto x = shaped(0, 20'003, rng);
  std::vector<float> none;
  for (std::size_t skipped = 1; skipped < 4; ++skipped) {
    const std::vector<float> view(x.begin() + static_cast<std::ptrdiff_t>(skipped), x.end());
    EmulatedTopk<float> topk(view.size(), 200, 2);
    expect_same(topk.run(x.data() + skipped, {}, none, skipped), on_cpu(view, 200), std::to_string(skipped));
  }
}

template <class T>
T narrow(float x);
template <>
Half narrow<Half>(float x) {
  return compress::to_half(x);
}
template <>
BFloat16 narrow<BFloat16>(float x) {
  return compress::to_bfloat16(x);
}

template <class T>
void check_narrow_input(std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  for (int shape = 0; shape < num_shapes - 1; ++shape) {
    const auto wide = shaped(shape, 25'000, rng);
    std::vector<T> x(wide.size());
    std::transform(wide.begin(), wide.end(), x.begin(), [&](float v) { return narrow<T>(rng() % 9 ? v : v * 1e-5f); });
    std::vector<float> residual(x.size(), 0.125f), next(x.size()), want_next(x.size());
    Selection want;
    compress::TopkWorkspace workspace;
    compress::top_k_feedback<T>(x, residual, want_next, 250, want, workspace);
    EmulatedTopk<T> topk(x.size(), 250, 3);
    expect_same(topk.run(x.data(), residual, next, rng()), want, "shape " + std::to_string(shape));
    if (!want.not_finite) {
      ASSERT_EQ(bits(next), bits(want_next));
    }
    std::vector<float> none;
    expect_same(EmulatedTopk<T>(x.size(), 250, 2).run(x.data(), {}, none, rng()), on_cpu(x, 250), "no feedback");
  }
}

TEST(CudaTopk, TakesHalfPrecisionInput) { check_narrow_input<Half>(7); }
TEST(CudaTopk, TakesBrainFloatInput) { check_narrow_input<BFloat16>(8); }

TEST(CudaTopk, WidensEveryHalf) {
  for (std::uint32_t b = 0; b < 65536; ++b) {
    const auto narrow_bits = static_cast<std::uint16_t>(b);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(widen(Half{narrow_bits})),
              std::bit_cast<std::uint32_t>(compress::to_float(Half{narrow_bits})));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(widen(BFloat16{narrow_bits})),
              std::bit_cast<std::uint32_t>(compress::to_float(BFloat16{narrow_bits})));
  }
}

TEST(CudaTopk, LeavesItsCountersAtZero) {
  std::mt19937_64 rng(9);
  std::vector<float> none;
  for (const int shape : {0, 2, 4, 8})
    for (const bool spoilt : {false, true}) {
      auto x = shaped(shape, 30'000, rng);
      if (spoilt) x[20'000] = nan;
      EmulatedTopk<float> topk(x.size(), 300, 3);
      topk.run(x.data(), {}, none, rng());
      topk.hint(0);
      const auto* left = reinterpret_cast<const unsigned char*>(&topk.cells_left());
      EXPECT_TRUE(std::all_of(left, left + sizeof(TopkCells), [](unsigned char b) { return b == 0; })) << shape;
    }
}

TEST(Golden, G15_CudaTopkTakesTheMagnitude) {
  // |-5| is the largest of [1, -5, 2, 0.5].
  const std::vector<float> x{1, -5, 2, 0.5f};
  std::vector<float> none;
  const Selection got = EmulatedTopk<float>(4, 1, 1).run(x.data(), {}, none, 0);
  EXPECT_EQ(got.index, std::vector<std::uint64_t>{1});
  EXPECT_EQ(got.value, std::vector<float>{-5});
}

}  // namespace
}  // namespace fusion::exec
