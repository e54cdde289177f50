#include "core/program/collective.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <tuple>

#include "core/base/error.h"
#include "core/base/names.h"

namespace fusion {
namespace {

using Members = std::vector<std::uint32_t>;

struct Range {
  std::int64_t begin, end;
  /// Part i of n nearly equal ones.
  Range part(std::size_t i, std::size_t n) const {
    const auto cut = [&](std::size_t k) {
      return begin + (end - begin) * static_cast<std::int64_t>(k) / static_cast<std::int64_t>(n);
    };
    return {cut(i), cut(i + 1)};
  }
};

class List {
 public:
  void add(std::size_t round, std::uint32_t from, std::uint32_t to, Range range, bool adds) {
    if (from != to) all_.push_back({static_cast<std::uint32_t>(round), from, to, range.begin, range.end, adds});
  }
  std::vector<Transfer> by_round() && {
    std::ranges::stable_sort(all_, {}, &Transfer::round);
    return std::move(all_);
  }

 private:
  std::vector<Transfer> all_;
};

// --- rings ---

/// The chunk that the member at `place` of a ring of n holds the sum of after `reduce_scatter_ring`.
std::size_t chunk_of(std::size_t place, std::size_t n) { return (place + 1) % n; }

/// n - 1 rounds: chunk c starts at place c and is added to at each that it passes.
void reduce_scatter_ring(List& list, const Members& ring, Range range, std::size_t round) {
  const std::size_t n = ring.size();
  for (std::size_t t = 0; t + 1 < n; ++t)
    for (std::size_t i = 0; i < n; ++i)
      list.add(round + t, ring[i], ring[(i + 1) % n], range.part((i + n - t) % n, n), true);
}

/// n - 1 rounds: every sum goes once round.
void all_gather_ring(List& list, const Members& ring, Range range, std::size_t round) {
  const std::size_t n = ring.size();
  for (std::size_t t = 0; t + 1 < n; ++t)
    for (std::size_t i = 0; i < n; ++i)
      list.add(round + t, ring[i], ring[(i + 1) % n], range.part(chunk_of(i + n - t, n), n), false);
}

/// Patarasuk & Yuan 2009: 2 (n - 1) (alpha + S / (n B)).
std::vector<Transfer> ring(const Group& group, std::int64_t num_elements) {
  List list;
  const Members order = near_order(group);
  reduce_scatter_ring(list, order, {0, num_elements}, 0);
  all_gather_ring(list, order, {0, num_elements}, order.size() - 1);
  return std::move(list).by_round();
}

/// The members by site, or by host where there is one site, in near order.
std::vector<Members> neighbourhoods(const Group& group) {
  const auto host = [&](std::uint32_t m) { return group.platform.device(group.devices[m]).host; };
  const auto site = [&](std::uint32_t m) { return group.platform.hosts[host(m).index()].site; };
  const Members order = near_order(group);
  const bool one_site = std::ranges::all_of(order, [&](std::uint32_t m) { return site(m) == site(order.front()); });
  std::map<std::uint32_t, std::size_t> index;
  std::vector<Members> places;
  for (const std::uint32_t m : order) {
    const auto [at, is_new] = index.try_emplace(one_site ? host(m).value : site(m).value, places.size());
    if (is_new) places.emplace_back();
    places[at->second].push_back(m);
  }
  return places;
}

/// Ranges in which no neighbourhood changes the member that holds the sum.
std::vector<Range> common_refinement(const std::vector<Members>& places, Range range) {
  std::vector<std::int64_t> cuts;
  for (const Members& place : places)
    for (std::size_t i = 0; i < place.size(); ++i) cuts.push_back(range.part(i, place.size()).begin);
  cuts.push_back(range.end);
  std::ranges::sort(cuts);
  const auto repeated = std::ranges::unique(cuts);
  cuts.erase(repeated.begin(), repeated.end());
  std::vector<Range> pieces;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) pieces.push_back({cuts[i], cuts[i + 1]});
  return pieces;
}

/// Reduce-scatter by a ring in each of g neighbourhoods, an all-reduce by rings across those that hold the same piece,
/// all-gather in each. With k members in each, and U the bandwidth that a neighbourhood has to the others:
///   2 (k - 1) (alpha + S / (k B)) + 2 (g - 1) (alpha' + S / (g U)).
std::vector<Transfer> hierarchical_ring(const Group& group, std::int64_t num_elements) {
  const std::vector<Members> places = neighbourhoods(group);
  const std::size_t largest = std::ranges::max(places, {}, &Members::size).size();
  const std::size_t across = largest - 1, back = across + 2 * (places.size() - 1);
  const Range all{0, num_elements};
  List list;
  for (const Members& place : places) reduce_scatter_ring(list, place, all, 0);
  for (const Range piece : common_refinement(places, all)) {
    Members holders;
    for (const Members& place : places)
      for (std::size_t i = 0; i < place.size(); ++i) {
        const Range held = all.part(chunk_of(i, place.size()), place.size());
        if (held.begin <= piece.begin && piece.end <= held.end) holders.push_back(place[i]);
      }
    reduce_scatter_ring(list, holders, piece, across);
    all_gather_ring(list, holders, piece, across + places.size() - 1);
  }
  for (const Members& place : places) all_gather_ring(list, place, all, back);
  return std::move(list).by_round();
}

// --- halving and doubling ---

std::vector<std::size_t> prime_factors(std::size_t n) {
  std::vector<std::size_t> factors;
  for (std::size_t f = 2; n > 1; ++f)
    for (; n % f == 0; n /= f) factors.push_back(f);
  return factors;
}

/// Into how many parts each step divides: first inside the neighbourhoods, where they are equally large.
std::vector<std::size_t> radices(const Group& group) {
  const std::vector<Members> places = neighbourhoods(group);
  const std::size_t size = places.front().size();
  if (!std::ranges::all_of(places, [&](const Members& place) { return place.size() == size; }))
    return prime_factors(group.devices.size());
  std::vector<std::size_t> steps = prime_factors(size);
  std::ranges::copy(prime_factors(places.size()), std::back_inserter(steps));
  return steps;
}

/// Vector halving with distance doubling (Thakur, Rabenseifner & Gropp 2005), so that the halves go to the nearest,
/// then the way back: for n = 2^k, 2 k alpha + 2 (n - 1) / n S / B. Other n go by thirds, fifths, … as their k prime
/// factors say, and need no member to sit out: the same closed form.
std::vector<Transfer> halving_doubling(const Group& group, std::int64_t num_elements) {
  const Members order = near_order(group);
  const std::vector<std::size_t> steps = radices(group);
  std::vector<Range> held(order.size(), Range{0, num_elements});
  List list;
  std::size_t stride = 1;
  for (std::size_t k = 0; k < steps.size(); stride *= steps[k++])
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::size_t radix = steps[k], digit = i / stride % radix;
      const Range whole = held[i];
      held[i] = whole.part(digit, radix);
      for (std::size_t turn = 1; turn < radix; ++turn) {
        const std::size_t other = (digit + turn) % radix, peer = i - digit * stride + other * stride;
        list.add(k, order[i], order[peer], whole.part(other, radix), true);
        // On the way back the same exchange what they keep here, when it has become the sum.
        list.add(2 * steps.size() - 1 - k, order[i], order[peer], held[i], false);
      }
    }
  return std::move(list).by_round();
}

// --- servers ---

/// Every member sends each server its share, and gets its sum back. Servers are members too. Each begins with another
/// server, so that they don't all call on one at a time.
std::vector<Transfer> through_servers(const Members& servers, std::size_t num_members, std::int64_t num_elements) {
  const Range all{0, num_elements};
  List list;
  for (std::size_t turn = 0; turn < servers.size(); ++turn)
    for (std::uint32_t m = 0; m < num_members; ++m) {
      const std::size_t s = (m + 1 + turn) % servers.size();
      list.add(0, m, servers[s], all.part(s, servers.size()), true);
    }
  for (std::uint32_t turn = 0; turn < num_members; ++turn)
    for (std::size_t s = 0; s < servers.size(); ++s) {
      const auto m = static_cast<std::uint32_t>((servers[s] + 1 + turn) % num_members);
      list.add(1, servers[s], m, all.part(s, servers.size()), false);
    }
  return std::move(list).by_round();
}

/// Members from the one that all the others reach soonest, one after the other, to the one that is worst to reach.
Members by_reach(const Group& group, const Members& among) {
  constexpr Bytes probe{1'000'000};
  std::vector<std::pair<Seconds, std::uint32_t>> reach;
  for (const std::uint32_t m : among) {
    Seconds sum{};
    for (const DeviceId other : group.devices)
      if (other != group.devices[m])
        sum += transfer_time(group.platform, other, group.devices[m], probe) +
               transfer_time(group.platform, group.devices[m], other, probe);
    reach.emplace_back(sum, m);
  }
  std::ranges::sort(reach);
  Members order;
  for (const auto& [time, m] : reach) order.push_back(m);
  return order;
}

/// 2 (alpha + (n - 1) S / B).
std::vector<Transfer> parameter_server(const Group& group, std::int64_t num_elements) {
  return through_servers({by_reach(group, near_order(group)).front()}, group.devices.size(), num_elements);
}

/// k servers: 2 (alpha + (n - 1) S / (k B)).
std::vector<Transfer> multi_server(const Group& group, std::int64_t num_elements) {
  const std::vector<Members> places = neighbourhoods(group);
  Members servers;
  for (const Members& place : places) servers.push_back(by_reach(group, place).front());
  const bool too_many = servers.size() == group.devices.size();
  if (servers.size() < 2 || too_many) {
    servers = by_reach(group, near_order(group));
    servers.resize(std::min<std::size_t>(2, servers.size()));
  }
  return through_servers(servers, group.devices.size(), num_elements);
}

/// n servers: 2 (alpha + (n - 1) / n S / B).
std::vector<Transfer> direct(const Group& group, std::int64_t num_elements) {
  return through_servers(near_order(group), group.devices.size(), num_elements);
}

/// alpha + (n - 1) S / B. Each pair takes its turn.
std::vector<Transfer> all_to_all(const Group& group, std::int64_t num_elements) {
  const auto n = static_cast<std::uint32_t>(group.devices.size());
  List list;
  for (std::uint32_t i = 0; i < n; ++i)
    for (std::uint32_t j = i + 1; j < n; ++j) {
      list.add(0, i, j, {0, num_elements}, true);
      list.add(0, j, i, {0, num_elements}, true);
    }
  return std::move(list).by_round();
}

constexpr std::array rows = {
    CollectiveRow{"all-to-all", "every member sends all it has to every other; one round", all_to_all},
    CollectiveRow{"ring", "reduce-scatter and all-gather along a ring of neighbours", ring},
    CollectiveRow{"hierarchical-ring", "rings inside each site, or host, then rings across them", hierarchical_ring},
    CollectiveRow{
        "halving-doubling",
        "recursive halving (thirds, … by the prime factors of n), then doubling; the largest parts go to the nearest",
        halving_doubling},
    CollectiveRow{"parameter-server", "all send to the member that is best to reach, and get the sum from it",
                  parameter_server},
    CollectiveRow{"multi-server", "the same with a share for one server in each site, or two servers", multi_server},
    CollectiveRow{"direct", "every member is the server of its share: reduce-scatter and all-gather in two rounds",
                  direct},
};

/// How far apart two members are, nearest first.
auto distance(const Group& group, std::uint32_t a, std::uint32_t b) {
  const Platform& platform = group.platform;
  const DeviceId from = group.devices[a], to = group.devices[b];
  const HostId host_a = platform.device(from).host, host_b = platform.device(to).host;
  const bool other_site = platform.hosts[host_a.index()].site != platform.hosts[host_b.index()].site;
  const Route there = route(platform, from, to), back = route(platform, to, from);
  const double slowest = std::min(there.bandwidth.value, back.bandwidth.value);
  return std::tuple(other_site, host_a != host_b, -slowest, (there.latency + back.latency).value, b);
}

}  // namespace

std::span<const CollectiveRow> collective_table() { return rows; }

std::string_view collective_named(std::string_view name) {
  if (name == auto_collective) return auto_collective;
  std::vector<std::string_view> names = names_of(rows);
  names.push_back(auto_collective);
  if (std::ranges::find(names, name) == names.end()) throw std::invalid_argument(unknown_name(name, names));
  return row_named(rows, name).name;
}

std::vector<Transfer> transfers(const CollectiveRow& row, const Group& group, std::int64_t num_elements) {
  if (group.devices.size() < 2) return {};
  std::vector<Transfer> list = row.list(group, num_elements);
  std::erase_if(list, [](const Transfer& each) { return each.begin == each.end; });
  return list;
}

std::vector<std::uint32_t> near_order(const Group& group) {
  Members left;
  for (std::uint32_t m = 0; m < group.devices.size(); ++m) left.push_back(m);
  Members order;
  while (!left.empty()) {
    const auto nearest = order.empty() ? left.begin() : std::ranges::min_element(left, {}, [&](std::uint32_t m) {
      return distance(group, order.back(), m);
    });
    order.push_back(*nearest);
    left.erase(nearest);
  }
  return order;
}

}  // namespace fusion
