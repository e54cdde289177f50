// Times of the kernels, against the plain read pass of the same size in the same run.
#include <cstdio>

#include "core/compress/half.h"
#include "exec/check/cases.h"
#include "exec/check/device.h"
#include "exec/check/read_pass.h"
#include "exec/check/report.h"
#include "exec/compress_cuda.h"

namespace fusion::exec {
namespace {

/// A pool of memory far larger than the caches, of which calls take one window after the other.
template <class T>
class Windows {
 public:
  Windows(const DeviceArray<T>& pool, std::uint64_t pool_size, std::uint64_t n)
      : data_(pool.data()), n_(n / 64 * 64), count_(pool_size / n) {}
  T* at(int call) const { return data_ + static_cast<std::uint64_t>(call) % count_ * n_; }
  std::uint64_t size() const { return n_; }

 private:
  T* data_;
  std::uint64_t n_, count_;
};

struct Pools {
  std::uint64_t size;
  DeviceArray<float> x, residual, next;
  DeviceArray<compress::BFloat16> bf16;
};

class Measurement {
 public:
  Measurement(const Pools& pools, std::uint64_t n, std::vector<Timing>& out)
      : pools_(pools), n_(n / 64 * 64), out_(out) {
    DeviceArray<float> sums(4096);
    const Windows<float> x(pools.x, pools.size, n);
    const double ms = median_ms([&](int i) { read_pass(x.at(i), n_, sums.data()); });
    read_bytes_per_ms_ = 4 * elements() / ms;
    add("read pass", ms, 4 * elements());
  }

  void topk(double keep) {
    const auto k = static_cast<std::uint64_t>(elements() * keep);
    const std::string name = percent(keep);
    // Each input read once, each output written once: 12 bytes per kept element.
    const double out = 12.0 * static_cast<double>(k);
    topk_of<float>("top-k warm" + name, pools_.x, k, true, false, 4 * elements() + out);
    topk_of<float>("top-k cold" + name, pools_.x, k, false, false, 4 * elements() + out);
    topk_of<float>("top-k feedback" + name, pools_.x, k, true, true, 12 * elements() + out);
    topk_of<compress::BFloat16>("top-k bf16 warm" + name, pools_.bf16, k, true, false, 2 * elements() + out);
  }

  void sparse(double keep) {
    const auto k = static_cast<std::uint64_t>(elements() * keep);
    const double kept = static_cast<double>(k);
    const Windows<float> x(pools_.x, pools_.size, n_), dense(pools_.next, pools_.size, n_);
    DeviceArray<std::uint64_t> index(k), size(1), back(k);
    DeviceArray<float> value(k);
    DeviceArray<TopkResult> result(1);
    const TopkPlan plan = plan_top_k<float>(n_, k);
    DeviceArray<std::byte> workspace(plan.workspace_bytes);
    reset_top_k(plan, workspace.data(), nullptr);
    top_k<float>(plan, {x.at(0), nullptr, nullptr, index.data(), value.data(), result.data()}, workspace.data(),
                 nullptr);
    const std::uint64_t* count = &result.data()->count;
    const std::string name = percent(keep);
    add("scatter into zeros" + name,
        median_ms([&](int i) { scatter_into_zeros(index.data(), value.data(), count, dense.at(i), n_, nullptr); }),
        4 * elements() + 12 * kept);
    DeviceArray<std::uint8_t> bytes(byte_delta_capacity(k, n_));
    DeviceArray<unsigned long long> totals(byte_delta_workspace_bytes() / sizeof(unsigned long long));
    DeviceArray<std::uint32_t> valid(1);
    const PackCall pack{index.data(), count, n_, bytes.data(), size.data(), totals.data()};
    add("byte-delta pack" + name, median_ms([&](int) { pack_byte_delta(pack, nullptr); }), 9 * kept);
    const UnpackCall unpack{bytes.data(), size.download().front(), k, n_, back.data(), valid.data(), totals.data()};
    add("byte-delta unpack" + name, median_ms([&](int) { unpack_byte_delta(unpack, nullptr); }), 9 * kept);
  }

  void quantise() {
    const Windows<float> x(pools_.x, pools_.size, n_), out(pools_.next, pools_.size, n_);
    DeviceArray<float> scales(n_ / 32 + 1);
    DeviceArray<std::uint8_t> codes(n_);
    DeviceArray<unsigned long long> not_finite(1);
    DeviceArray<std::uint32_t> invalid(1);
    const auto both = [&](const std::string& name, auto encode, auto decode, double bytes_each) {
      const double bytes = (4 + bytes_each) * elements();
      add(name + " encode", median_ms([&](int i) {
            encode(QuantiseCall{x.at(i), n_, scales.data(), codes.data(), nullptr, not_finite.data(), false, 0},
                   nullptr);
          }),
          bytes);
      add(name + " decode", median_ms([&](int i) {
            decode(DequantiseCall{scales.data(), codes.data(), n_, out.at(i), invalid.data()}, nullptr);
          }),
          bytes);
    };
    both("int8", quantise_int8, dequantise_int8, 1 + 4.0 / 256);
    both("int4", quantise_int4, dequantise_int4, 0.5 + 4.0 / 32);
  }

  /// Inputs on which a threshold can't part the kept from the rest.
  void adversarial() {
    for (const Case& made : cases()) {
      const DeviceArray<float> x{std::span<const float>(make_tensor(made, n_))};
      topk_on<float>(
          "top-k warm 1 % " + std::string(made.name), [&](int) { return x.data(); }, n_ / 100, true, false,
          4 * elements());
    }
  }

 private:
  double elements() const { return static_cast<double>(n_); }

  static std::string percent(double keep) {
    char text[32];
    std::snprintf(text, sizeof text, " %g %%", keep * 100);
    return text;
  }

  template <class T>
  void topk_of(const std::string& name, const DeviceArray<T>& pool, std::uint64_t k, bool warm, bool feedback,
               double bytes) {
    const Windows<T> x(pool, pools_.size, n_);
    topk_on<T>(
        name, [&](int i) { return x.at(i); }, k, warm, feedback, bytes);
  }

  template <class T, class Input>
  void topk_on(const std::string& name, Input input, std::uint64_t k, bool warm, bool feedback, double bytes) {
    const Windows<float> residual(pools_.residual, pools_.size, n_), next(pools_.next, pools_.size, n_);
    const TopkPlan plan = plan_top_k<T>(n_, k);
    DeviceArray<std::byte> workspace(plan.workspace_bytes);
    DeviceArray<std::uint64_t> index(k);
    DeviceArray<float> value(k);
    DeviceArray<TopkResult> result(1);
    reset_top_k(plan, workspace.data(), nullptr);
    const auto call = [&](int i) {
      if (!warm) reset_top_k(plan, workspace.data(), nullptr);
      top_k<T>(plan,
               {input(i), feedback ? residual.at(i) : nullptr, feedback ? next.at(i) : nullptr, index.data(),
                value.data(), result.data()},
               workspace.data(), nullptr);
    };
    add(name, median_ms(call), bytes);
  }

  void add(const std::string& name, double ms, double bytes) {
    out_.push_back({name, elements(), ms, bytes, bytes / ms / read_bytes_per_ms_});
  }

  const Pools& pools_;
  std::uint64_t n_;
  std::vector<Timing>& out_;
  double read_bytes_per_ms_ = 0;
};

}  // namespace

std::vector<Timing> measure(bool quick) {
  const std::uint64_t size = quick ? 16'777'216 : 100'000'000;
  const std::vector<float> x = make_tensor(cases()[0], size);
  std::vector<compress::BFloat16> narrow(size);
  std::transform(x.begin(), x.end(), narrow.begin(), compress::to_bfloat16);
  const std::vector<float> zeros(size);
  const Pools pools{size, DeviceArray<float>(std::span(x)), DeviceArray<float>(std::span(zeros)),
                    DeviceArray<float>(size),
                    DeviceArray<compress::BFloat16>(std::span<const compress::BFloat16>(narrow))};
  std::vector<Timing> out;
  for (const std::uint64_t n : {std::uint64_t{1} << 20, std::uint64_t{1} << 24, size}) {
    if (n == size && quick) continue;
    Measurement measurement(pools, n, out);
    for (const double keep : {0.001, 0.01, 0.1}) measurement.topk(keep);
    measurement.sparse(0.01);
    measurement.quantise();
    if (n == size) measurement.adversarial();
  }
  return out;
}

}  // namespace fusion::exec
