// Max-min fair rates of the messages on a platform's shared links, kept up to date as messages start and end.
//
// A message has a cap, the least bandwidth of its route. A shared link binds only where the caps of its messages add up
// to more than its bandwidth; messages that no binding link joins can't touch each other, so a start or an end solves
// one such component anew. Bertsekas & Gallager, Data Networks, section 6.5.2: raise all rates together, and fix those
// of a link when it is full.
//
// Many messages on one binding link alone are a *crowd*: all have the same rate, so each has its end on one scale, the
// bytes that every member has been given so far, and a start or an end costs the logarithm of their number (the virtual
// time of fair queueing; Parekh & Gallager 1993). Only the member that ends next has an end in time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/platform/platform.h"
#include "core/program/program.h"

namespace fusion {

class SharedLinks {
 public:
  /// Without `sharing` every message runs at its cap.
  SharedLinks(const Platform&, const std::vector<Route>& routes, bool sharing);

  /// A message of `bytes` enters a channel, which is empty; or the one in it leaves.
  void start(std::uint32_t channel, double bytes, double now_s);
  void end(std::uint32_t channel);

  struct Change {
    std::uint32_t channel;
    double end_s;  ///< infinite: another one of its crowd ends before it
  };
  /// Solves what has changed since the last call, and lists the messages whose end moved. Valid until the next call.
  const std::vector<Change>& settle(double now_s);

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  static constexpr std::size_t least_crowd = 32;

  struct Flow {
    double cap = 0, rate = 0;  ///< bytes per second
    double left = 0;           ///< bytes, at `since_s`; in a crowd: its end on the crowd's scale
    double since_s = 0;
    bool active = false, fixed = false;
    std::uint32_t crowded_on = none;              ///< link of its crowd
    std::uint32_t mark = 0;                       ///< round in which it was collected
    std::uint32_t first_link = 0, last_link = 0;  ///< range of `links_of_`
  };
  struct LinkState {
    double bandwidth = 0;
    double caps = 0;         ///< sum over its messages
    double left = 0;         ///< while a component is solved
    std::uint32_t open = 0;  ///< messages not fixed yet
    std::uint32_t mark = 0;
    bool dirty = false;                  ///< in `dirty_links_`
    std::uint32_t crowd = none;          ///< index into `crowds_`
    std::vector<std::uint32_t> flows{};  ///< active channels
    bool binds() const { return flows.size() > 1 && caps > bandwidth * (1 + 1e-12); }
  };

  /// The messages of a link, by their ends.
  struct Crowd {
    double given = 0;  ///< bytes that each member has got, at `since_s`
    double since_s = 0, rate = 0;
    double least_cap = 0;                                  ///< of its members, and of some that have left
    std::uint32_t next = none;                             ///< whose end is in time
    std::vector<std::pair<double, std::uint32_t>> ends{};  ///< heap
  };
  std::uint32_t only_binding_link(const Flow&) const;
  bool share_in_crowd(std::uint32_t link, double now_s);
  bool join_crowd(std::uint32_t flow, double now_s);
  void leave_crowd(std::uint32_t flow);
  void form_crowd(std::uint32_t link, double now_s);
  void dissolve_crowd(std::uint32_t link, double now_s);
  void leave_link(std::uint32_t flow, std::uint32_t at);
  void solve_around(std::uint32_t flow, double now_s);
  void collect(std::uint32_t flow);
  void solve();
  void fix(std::uint32_t flow, double rate);
  void set_rate(std::uint32_t flow, double rate, double now_s);

  std::vector<Flow> flows_;                           ///< by channel
  std::vector<LinkState> links_;                      ///< those shared by two channels or more
  std::vector<std::uint32_t> links_of_;               ///< by flow …
  std::vector<std::uint32_t> position_;               ///< … and where it stands in that link's `flows`
  std::vector<std::uint32_t> started_, dirty_links_;  ///< whose components are to be solved
  std::vector<std::uint32_t> component_, touched_;    ///< flows and links of the one being solved
  std::vector<Crowd> crowds_;
  std::vector<std::uint32_t> unused_crowds_;
  std::vector<double> solved_;                            ///< by flow: its new rate
  std::vector<std::pair<double, std::uint32_t>> shares_;  ///< heap of links by share
  std::vector<Change> changes_;
  std::uint32_t round_ = 0;
};

}  // namespace fusion
