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
  flow.crowded_on = none;
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
  if (flow.crowded_on != none) leave_crowd(channel);
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
  if (!flows_[flow].active || flows_[flow].mark == round_ || join_crowd(flow, now_s)) return;
  collect(flow);
  for (const std::uint32_t each : component_)
    if (flows_[each].crowded_on != none) dissolve_crowd(flows_[each].crowded_on, now_s);
  solve();
  for (const std::uint32_t each : component_) set_rate(each, solved_[each], now_s);
  if (touched_.size() == 1 && component_.size() >= least_crowd) form_crowd(touched_.front(), now_s);
}

/// The one link that holds the message back, if there is one alone.
std::uint32_t SharedLinks::only_binding_link(const Flow& flow) const {
  std::uint32_t only = none;
  for (std::uint32_t i = flow.first_link; i < flow.last_link; ++i) {
    if (!links_[links_of_[i]].binds()) continue;
    if (only != none) return none;
    only = links_of_[i];
  }
  return only;
}

/// All messages of the link are held back by it alone, each by less than its cap. Then they are a crowd from here on.
void SharedLinks::form_crowd(std::uint32_t l, double now_s) {
  LinkState& link = links_[l];
  double least_cap = std::numeric_limits<double>::infinity();
  for (const std::uint32_t f : link.flows) least_cap = std::min(least_cap, flows_[f].cap);
  if (least_cap * static_cast<double>(link.flows.size()) < link.bandwidth) return;
  if (unused_crowds_.empty()) {
    unused_crowds_.push_back(static_cast<std::uint32_t>(crowds_.size()));
    crowds_.emplace_back();
  }
  link.crowd = unused_crowds_.back();
  unused_crowds_.pop_back();
  Crowd& crowd = crowds_[link.crowd];
  crowd = {.since_s = now_s, .least_cap = least_cap, .ends = std::move(crowd.ends)};
  crowd.ends.clear();
  for (const std::uint32_t f : link.flows) {
    Flow& flow = flows_[f];
    flow.left = std::max(flow.left - flow.rate * (now_s - flow.since_s), 0.0);
    flow.crowded_on = l;
    crowd.ends.emplace_back(flow.left, f);
    changes_.push_back({f, std::numeric_limits<double>::infinity()});
  }
  std::ranges::make_heap(crowd.ends, std::greater<>{});
  share_in_crowd(l, now_s);
}

/// Each goes on by itself: all that it needs is set when it gets its rate.
void SharedLinks::dissolve_crowd(std::uint32_t l, double now_s) {
  LinkState& link = links_[l];
  Crowd& crowd = crowds_[link.crowd];
  crowd.given += crowd.rate * (now_s - crowd.since_s);
  for (const auto& [end, f] : crowd.ends) {
    Flow& flow = flows_[f];
    flow.left = std::max(end - crowd.given, 0.0);
    flow.since_s = now_s;
    flow.rate = 0;
    flow.crowded_on = none;
  }
  unused_crowds_.push_back(std::exchange(link.crowd, none));
}

/// A message that starts on a crowd's link, and on no other that binds.
bool SharedLinks::join_crowd(std::uint32_t f, double now_s) {
  Flow& flow = flows_[f];
  const std::uint32_t l = flow.crowded_on != none ? none : only_binding_link(flow);
  if (l == none || links_[l].crowd == none) return false;
  Crowd& crowd = crowds_[links_[l].crowd];
  crowd.given += crowd.rate * (now_s - std::exchange(crowd.since_s, now_s));
  flow.left += crowd.given;
  flow.crowded_on = l;
  crowd.least_cap = std::min(crowd.least_cap, flow.cap);
  crowd.ends.emplace_back(flow.left, f);
  std::ranges::push_heap(crowd.ends, std::greater<>{});
  return share_in_crowd(l, now_s);
}

/// Mostly it is the one that ends next.
void SharedLinks::leave_crowd(std::uint32_t f) {
  Crowd& crowd = crowds_[links_[std::exchange(flows_[f].crowded_on, none)].crowd];
  if (crowd.next == f) crowd.next = none;
  if (crowd.ends.front().second == f) {
    std::ranges::pop_heap(crowd.ends, std::greater<>{});
    crowd.ends.pop_back();
    return;
  }
  std::erase_if(crowd.ends, [&](const auto& end) { return end.second == f; });
  std::ranges::make_heap(crowd.ends, std::greater<>{});
}

/// Divides the link anew among its crowd. False where it no longer is one: somebody's cap is less than its share.
bool SharedLinks::share_in_crowd(std::uint32_t l, double now_s) {
  LinkState& link = links_[l];
  Crowd& crowd = crowds_[link.crowd];
  const double rate = link.bandwidth / static_cast<double>(link.flows.size());
  if (link.flows.size() < least_crowd / 2 || rate > crowd.least_cap) return false;
  crowd.given += crowd.rate * (now_s - std::exchange(crowd.since_s, now_s));
  crowd.rate = rate;
  const auto [end, next] = crowd.ends.front();
  if (crowd.next != none && crowd.next != next)
    changes_.push_back({crowd.next, std::numeric_limits<double>::infinity()});
  crowd.next = next;
  changes_.push_back({next, now_s + std::max(end - crowd.given, 0.0) / rate});
  return true;
}

const std::vector<SharedLinks::Change>& SharedLinks::settle(double now_s) {
  changes_.clear();
  ++round_;
  for (const std::uint32_t flow : started_) solve_around(flow, now_s);
  for (const std::uint32_t link : dirty_links_) {
    links_[link].dirty = false;
    if (links_[link].crowd != none) {
      if (share_in_crowd(link, now_s)) continue;
      dissolve_crowd(link, now_s);
    }
    for (const std::uint32_t flow : links_[link].flows) solve_around(flow, now_s);
  }
  started_.clear();
  dirty_links_.clear();
  return changes_;
}

}  // namespace fusion
