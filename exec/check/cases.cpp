#include "exec/check/cases.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <thread>

namespace fusion::exec {
namespace {

std::uint64_t mix(std::uint64_t z) {  // splitmix64
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// Box and Muller's transform of two uniform numbers.
float gaussian(std::uint64_t i, std::uint64_t) {
  const std::uint64_t bits = mix(i);
  const float u = static_cast<float>((bits >> 40) + 1) * 0x1p-24f, v = static_cast<float>(bits & 0xffffffu) * 0x1p-24f;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi_v<float> * v);
}
float clustered(std::uint64_t i, std::uint64_t n) { return gaussian(i, n) * (i < n / 50 ? 1000.0f : 1.0f); }
float ties(std::uint64_t i, std::uint64_t) { return static_cast<float>(mix(i) % 5) - 2; }
float constant(std::uint64_t, std::uint64_t) { return -2.5f; }
float sparse(std::uint64_t i, std::uint64_t n) { return mix(i) % 1000 == 0 ? gaussian(i, n) : 0; }
float subnormal(std::uint64_t i, std::uint64_t n) { return gaussian(i, n) * 1e-41f; }

constexpr Case all[] = {{"gaussian", gaussian}, {"clustered", clustered}, {"ties", ties},
                        {"constant", constant}, {"sparse", sparse},       {"subnormal", subnormal}};

}  // namespace

std::span<const Case> cases() { return all; }

std::vector<float> make_tensor(const Case& made, std::uint64_t n) {
  std::vector<float> x(n);
  const std::uint64_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::jthread> workers;
  for (std::uint64_t t = 0; t < threads; ++t)
    workers.emplace_back([&, t] {
      for (std::uint64_t i = n * t / threads; i < n * (t + 1) / threads; ++i) x[i] = made.element(i, n);
    });
  workers.clear();
  return x;
}

}  // namespace fusion::exec
