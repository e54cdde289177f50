// Shared links against the textbook's division, followed through time.
#include "core/engine/shared_links.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "bench/synthetic.h"

namespace fusion {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// Rates by raising all together in small turns of the textbook: find the tightest link, fix its messages, go on. A
/// message's own links bound it too.
std::vector<double> naive_rates(const Platform& platform, const std::vector<Route>& routes,
                                const std::vector<bool>& active) {
  std::vector<double> rates(routes.size(), 0), left;
  std::vector<bool> open = active;
  for (const Link& link : platform.links) left.push_back(link.bandwidth.value);
  while (std::ranges::count(open, true) > 0) {
    std::vector<int> users(left.size());
    for (std::size_t f = 0; f < routes.size(); ++f)
      for (const LinkId id : routes[f]) users[id.index()] += open[f] ? 1 : 0;
    double least = never;
    for (std::size_t l = 0; l < left.size(); ++l)
      if (users[l] > 0) least = std::min(least, left[l] / users[l]);
    for (std::size_t f = 0; f < routes.size(); ++f) {
      const auto tight = [&](LinkId id) {
        return users[id.index()] > 0 && left[id.index()] / users[id.index()] <= least * (1 + 1e-12);
      };
      if (open[f] && std::ranges::any_of(routes[f], tight)) rates[f] = least;
    }
    for (std::size_t f = 0; f < routes.size(); ++f) {
      if (!open[f] || rates[f] == 0) continue;
      open[f] = false;
      for (const LinkId id : routes[f]) left[id.index()] -= rates[f];
    }
  }
  return rates;
}

TEST(SharedLinks, RatesFollowTheTextbookThroughStartsAndEnds) {
  std::mt19937_64 random(31);
  for (int round = 0; round < 40; ++round) {
    Platform platform = make_platform({.num_devices = 8, .num_sites = 2});
    for (Link& link : platform.links) link.bandwidth = BytesPerSecond(std::uniform_real_distribution(1.0, 9.0)(random));
    std::vector<Route> routes;
    for (std::size_t i = 0; i < 8; ++i)
      for (std::size_t j = 0; j < 8; ++j)
        if (i != j) routes.push_back(route(platform, DeviceId(i), DeviceId(j)));
    SharedLinks links(platform, routes, true);
    std::vector<bool> active(routes.size());
    std::vector<double> end_s(routes.size());
    constexpr double bytes = 1e9;  // so much that what has been sent meanwhile is not seen
    for (int event = 0; event < 60; ++event) {
      const auto f = static_cast<std::uint32_t>(random() % routes.size());
      active[f] ? links.end(f) : links.start(f, bytes, 0);
      active[f] = !active[f];
      for (const auto& [channel, when] : links.settle(0)) end_s[channel] = when;
      const std::vector<double> expected = naive_rates(platform, routes, active);
      for (std::size_t each = 0; each < routes.size(); ++each) {
        if (!active[each] || end_s[each] == never) continue;
        ASSERT_NEAR(bytes / end_s[each], expected[each], 1e-9 * expected[each]) << round << " " << event;
      }
    }
  }
}

/// Messages that start one after the other, from all devices to device 0, mostly: their ends, one message at a time.
struct Start {
  std::uint32_t channel;
  double at_s, bytes;
};

std::vector<double> naive_ends(const Platform& platform, const std::vector<Route>& routes, std::vector<Start> starts) {
  std::vector<double> ends(routes.size(), never), left(routes.size());
  std::vector<bool> active(routes.size());
  double now = 0;
  for (std::size_t next = 0; next < starts.size() || std::ranges::count(active, true) > 0;) {
    const std::vector<double> rates = naive_rates(platform, routes, active);
    double until = next < starts.size() ? starts[next].at_s : never;
    std::size_t ended = routes.size();
    for (std::size_t f = 0; f < routes.size(); ++f)
      if (active[f] && now + left[f] / rates[f] < until) until = now + left[f] / rates[f], ended = f;
    for (std::size_t f = 0; f < routes.size(); ++f)
      if (active[f]) left[f] -= rates[f] * (until - now);
    now = until;
    if (ended < routes.size()) {
      active[ended] = false;
      ends[ended] = now;
    } else {
      active[starts[next].channel] = true;
      left[starts[next].channel] = starts[next].bytes;
      ++next;
    }
  }
  return ends;
}

std::vector<double> ends(const Platform& platform, const std::vector<Route>& routes, std::vector<Start> starts) {
  SharedLinks links(platform, routes, true);
  std::vector<double> due(routes.size(), never), ends(routes.size(), never);
  for (std::size_t next = 0;;) {
    const std::size_t first = static_cast<std::size_t>(std::ranges::min_element(due) - due.begin());
    const double start_s = next < starts.size() ? starts[next].at_s : never, now = std::min(due[first], start_s);
    if (now == never) return ends;
    if (start_s < due[first]) {
      links.start(starts[next].channel, starts[next].bytes, now);
      ++next;
    } else {
      links.end(static_cast<std::uint32_t>(first));
      ends[first] = now;
      due[first] = never;
    }
    for (const auto& [channel, when] : links.settle(now)) due[channel] = when;
  }
}

// Crowds come and go: many messages into one NIC, with some that start late, some held back by their own slow NICs, and
// some that compete on other links.
TEST(SharedLinks, CrowdsEndWhenTheTextbookSays) {
  std::mt19937_64 random(32);
  const auto real = [&](double low, double high) { return std::uniform_real_distribution(low, high)(random); };
  for (int round = 0; round < 60; ++round) {
    constexpr std::size_t num_devices = 60;
    Platform platform = make_platform({.num_devices = num_devices, .num_sites = 1 + round % 2});
    for (Link& link : platform.links) {
      link.bandwidth = BytesPerSecond(round % 3 == 0 ? 1.0 : real(0.5, 1.5));
      if (random() % 10 == 0) link.bandwidth = BytesPerSecond(0.05);  // binds once few are left
    }
    std::vector<Route> routes;
    std::vector<Start> starts;
    for (std::size_t d = 1; d < num_devices; ++d) {
      const std::size_t to = random() % 12 == 0 ? (d + 1) % num_devices : 0;
      const double at_s = random() % 2 == 0 ? 0 : real(0, 60);
      starts.push_back({static_cast<std::uint32_t>(routes.size()), at_s, real(1, 3)});
      routes.push_back(route(platform, DeviceId(d), DeviceId(to)));
    }
    std::ranges::stable_sort(starts, {}, &Start::at_s);
    const std::vector<double> got = ends(platform, routes, starts), expected = naive_ends(platform, routes, starts);
    for (std::size_t f = 0; f < routes.size(); ++f) ASSERT_NEAR(got[f], expected[f], 1e-9 * expected[f]) << round;
  }
}

}  // namespace
}  // namespace fusion
