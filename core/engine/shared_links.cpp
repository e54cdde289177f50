#include "core/engine/shared_links.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace fusion {

SharedLinks::SharedLinks(const Platform& platform, const std::vector<Route>& routes, bool sharing)
    : flows_(routes.size()), solved_(routes.size()) {
  std::vector<std::uint32_t> users(platform.links.size()), number(platform.links.size());
  for (const Route& route : routes)
    for (const LinkId id : route)
      if (sharing && platform.link(id).shared) ++users[id.index()];
  for (std::size_t l = 0; l < users.size(); ++l) {
    if (users[l] < 2) continue;
    number[l] = static_cast<std::uint32_t>(links_.size());
    links_.push_back({.bandwidth = platform.links[l].bandwidth.value});
  }
  for (std::size_t f = 0; f < routes.size(); ++f) {
    flows_[f].cap = routes[f].bandwidth.value;
    flows_[f].first_link = static_cast<std::uint32_t>(links_of_.size());
    for (const LinkId id : routes[f])
      if (users[id.index()] >= 2) links_of_.push_back(number[id.index()]);
    flows_[f].last_link = static_cast<std::uint32_t>(links_of_.size());
  }
  position_.resize(links_of_.size());
}

void SharedLinks::start(std::uint32_t channel, double bytes, double now_s) {
  Flow& flow = flows_[channel];
  flow.left = bytes;
  flow.since_s = now_s;
  flow.rate = 0;
  flow.active = true;
  started_.push_back(channel);
  for (std::uint32_t i = flow.first_link; i < flow.last_link; ++i) {
    LinkState& link = links_[links_of_[i]];
    position_[i] = static_cast<std::uint32_t>(link.flows.size());
    link.flows.push_back(channel);
    link.caps += flow.cap;
  }
}

/// Puts the link's last message in the place of the one that leaves.
void SharedLinks::leave_link(std::uint32_t f, std::uint32_t at) {
  LinkState& link = links_[links_of_[at]];
  const std::uint32_t last = link.flows.back();
  link.flows[position_[at]] = last;
  link.flows.pop_back();
  for (std::uint32_t i = flows_[last].first_link; i < flows_[last].last_link; ++i)
    if (links_of_[i] == links_of_[at]) position_[i] = position_[at];
  link.caps = link.flows.empty() ? 0 : link.caps - flows_[f].cap;  // from zero again: rounding does not build up
}

void SharedLinks::end(std::uint32_t channel) {
  Flow& flow = flows_[channel];
  flow.active = false;
  for (std::uint32_t i = flow.first_link; i < flow.last_link; ++i) {
    LinkState& link = links_[links_of_[i]];
    if (link.binds() && !std::exchange(link.dirty, true)) dirty_links_.push_back(links_of_[i]);
    leave_link(channel, i);
  }
}

/// Every message that binding links join to `flow`.
void SharedLinks::collect(std::uint32_t flow) {
  component_.assign(1, flow);
  touched_.clear();
  flows_[flow].mark = round_;
  for (std::size_t at = 0; at < component_.size(); ++at) {
    const Flow& each = flows_[component_[at]];
    for (std::uint32_t i = each.first_link; i < each.last_link; ++i) {
      LinkState& link = links_[links_of_[i]];
      if (link.mark == round_ || !link.binds()) continue;
      link.mark = round_;
      touched_.push_back(links_of_[i]);
      for (const std::uint32_t other : link.flows) {
        if (flows_[other].mark == round_) continue;
        flows_[other].mark = round_;
        component_.push_back(other);
      }
    }
  }
}

void SharedLinks::fix(std::uint32_t f, double rate) {
  Flow& flow = flows_[f];
  flow.fixed = true;
  solved_[f] = rate;
  for (std::uint32_t i = flow.first_link; i < flow.last_link; ++i) {
    LinkState& link = links_[links_of_[i]];
    if (link.mark != round_) continue;
    link.left = std::max(link.left - rate, 0.0);
    --link.open;
  }
}

/// Shares only grow as messages are fixed, so a link that has grown since it was put in the heap goes back into it.
void SharedLinks::solve() {
  for (const std::uint32_t f : component_) flows_[f].fixed = false;
  shares_.clear();
  for (const std::uint32_t l : touched_) {
    LinkState& link = links_[l];
    link.left = link.bandwidth;
    link.open = static_cast<std::uint32_t>(link.flows.size());
    shares_.emplace_back(link.left / link.open, l);
  }
  std::ranges::sort(component_, {}, [&](std::uint32_t f) { return std::pair(flows_[f].cap, f); });
  std::ranges::make_heap(shares_, std::greater<>{});
  std::size_t next = 0;  // of component_: the least cap that is not fixed
  const auto fix_up_to = [&](double share) {
    for (; next < component_.size(); ++next) {
      const std::uint32_t f = component_[next];
      if (flows_[f].fixed) continue;
      if (flows_[f].cap > share) break;
      fix(f, flows_[f].cap);
    }
  };
  while (!shares_.empty()) {
    std::ranges::pop_heap(shares_, std::greater<>{});
    const auto [share, l] = shares_.back();
    shares_.pop_back();
    LinkState& link = links_[l];
    if (link.open == 0) continue;
    fix_up_to(share);
    if (link.open == 0) continue;
    const double now = link.left / link.open;
    if (now > share * (1 + 1e-12)) {
      shares_.emplace_back(now, l);
      std::ranges::push_heap(shares_, std::greater<>{});
      continue;
    }
    for (const std::uint32_t f : link.flows)
      if (!flows_[f].fixed) fix(f, share);
  }
  fix_up_to(std::numeric_limits<double>::infinity());
}

void SharedLinks::set_rate(std::uint32_t f, double rate, double now_s) {
  Flow& flow = flows_[f];
  if (rate == flow.rate) return;
  flow.left = std::max(flow.left - flow.rate * (now_s - flow.since_s), 0.0);
  flow.since_s = now_s;
  flow.rate = rate;
  changes_.push_back({f, now_s + flow.left / rate});
}

void SharedLinks::solve_around(std::uint32_t flow, double now_s) {
  if (!flows_[flow].active || flows_[flow].mark == round_) return;
  collect(flow);
  solve();
  for (const std::uint32_t each : component_) set_rate(each, solved_[each], now_s);
}

const std::vector<SharedLinks::Change>& SharedLinks::settle(double now_s) {
  changes_.clear();
  ++round_;
  for (const std::uint32_t flow : started_) solve_around(flow, now_s);
  for (const std::uint32_t link : dirty_links_) {
    links_[link].dirty = false;
    for (const std::uint32_t flow : links_[link].flows) solve_around(flow, now_s);
  }
  started_.clear();
  dirty_links_.clear();
  return changes_;
}

}  // namespace fusion
