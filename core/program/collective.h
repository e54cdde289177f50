// All-reduce: how the gradients that several devices hold of the same parameters become their sum on each of them.
//
// An algorithm is a row of the table and a function: from who the members are and how many elements their bucket has,
// to a list of transfers by round. It knows neither tasks nor times. One lowering turns any list into sends, recvs and
// reduces of a Program, one formula says what any list takes by itself, and one check (tests/collective_test.cpp)
// proves of any list that every member ends with the sum of all, each added once.
//
// Legend: n members, S bytes in the bucket, alpha latency and B bandwidth of a member's link in each direction.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/platform/platform.h"
#include "core/program/program.h"

namespace fusion {

/// One message: elements [begin, end) of the bucket, as the sender holds them at the end of the round before. At the
/// end of the round the receiver adds them to its own (partial sums), or takes them over in place of its own (sums).
struct Transfer {
  std::uint32_t round = 0;
  std::uint32_t from = 0, to = 0;  ///< members, as indices into the group
  std::int64_t begin = 0, end = 0;
  bool adds = false;
  bool operator==(const Transfer&) const = default;
};

/// The devices that hold the same bucket. They differ.
struct Group {
  const Platform& platform;
  std::vector<DeviceId> devices;
};

struct CollectiveRow {
  std::string_view name;
  std::string_view help;
  /// By ascending round. Empty ranges may occur; `transfers` leaves them out.
  std::vector<Transfer> (*list)(const Group&, std::int64_t num_elements);
};

std::span<const CollectiveRow> collective_table();

/// --collective: a row's name, or `auto_collective`. Throws std::invalid_argument with the nearest names.
inline constexpr std::string_view auto_collective = "auto";
std::string_view collective_named(std::string_view name);

/// What travels, for a group of any size; nothing for one member.
std::vector<Transfer> transfers(const CollectiveRow&, const Group&, std::int64_t num_elements);

/// Members in an order in which neighbours are near: the same host before the same site before the widest route.
/// Rings run along it, recursive halving exchanges most between neighbours.
std::vector<std::uint32_t> near_order(const Group&);

/// Adding parts of so many bytes up: a read of each and one write, at the memory's sustained rate.
Seconds reduce_time(const Platform&, DeviceId, Bytes, std::size_t num_parts);

/// What a list takes by itself: the sum over its rounds of the busiest channel or shared link, the longest latency, and
/// the longest addition. Exact where every member works at the same pace.
Seconds all_reduce_time(const std::vector<Transfer>&, const Group&, std::int64_t bytes_per_element);

/// The row that is named, or the one of least `all_reduce_time` where the name is `auto`. Precondition: a valid name.
const CollectiveRow& choose_collective(std::string_view name, const Group&, std::int64_t num_elements,
                                       std::int64_t bytes_per_element);

/// Parameters that the same members hold, exchanged as one.
struct Bucket {
  std::vector<ParameterId> parameters;
  std::int64_t num_elements = 0;
  std::int64_t bytes_per_element = 4;
  std::string name;  ///< for people: "wte.weight and 11 more"
};

struct Member {
  DeviceId device;
  StageId stage;              ///< of the tasks
  std::vector<TaskId> after;  ///< what makes its gradients
};

struct MemberTasks {
  std::vector<TaskId> list;  ///< for the device's list, in this order
  std::vector<TaskId> done;  ///< when these are complete, it holds the sum
};

/// Adds the tasks of an all-reduce to the program, once per iteration; the caller puts them into the lists. Where every
/// device lists its all-reduces in the order in which they were added, they can't wait for each other in a circle, nor
/// under rendezvous: in all lists, messages stand in one order. By member.
std::vector<MemberTasks> add_all_reduce(Program&, const Platform&, const std::vector<Member>&, const Bucket&,
                                        const std::vector<Transfer>&);

}  // namespace fusion
