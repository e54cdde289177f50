// netlab-relay: the slow links of experiments/netlab. A TUN per device, and between them queues with a rate and a
// delay.
//
// Standard input, one line each, then its end:
//   device NETNS                          a file like /run/netns/a; devices count from 0, in this order
//   hop RATE QUEUE                        bits/s, and bytes that may wait; hops count from 0
//   route FROM TO LATENCY HOP[,HOP…]      ns one way; a hop that several routes name is shared by them
// Prints "ready" when the TUNs (named "wan") are there, and what it dropped when SIGTERM ends it.
//
// Device d has an address that ends in d + 1 (16 bits). A packet holds each hop for payload / rate, one packet at a
// time in the order of arrival, and moves on as its first byte does (cut-through): alone on its route it takes payload
// / slowest rate + latency. Headers cost nothing, so that a rate is what a message gets, as iperf3 and `fusion-exec
// probe` measure it. Segments come unsplit (TSO), so that 1 Gbps is a few thousand packets a second.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <queue>
#include <sstream>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

namespace {

using Nanoseconds = std::int64_t;

constexpr std::size_t virtio_header = 10;  ///< struct virtio_net_hdr; its Linux header is no C++

struct Hop {
  double ns_per_byte = 0;
  std::int64_t queue_bytes = 0;
  Nanoseconds free_at = 0;
  std::uint64_t dropped = 0;
};

struct Route {
  Nanoseconds latency = 0;
  std::vector<std::size_t> hops;
};

struct Network {
  std::vector<int> tuns;  ///< by device
  std::vector<Hop> hops;
  std::map<std::pair<std::size_t, std::size_t>, Route> routes;  ///< by from, to
};

struct Packet {
  std::vector<char> frame;  ///< with the header of virtio that tells of unsplit segments
  std::int64_t payload = 0;
  std::size_t to = 0, next_hop = 0;
  const Route* route = nullptr;
  Nanoseconds end = 0;  ///< its last byte has left the hops so far
};

/// What happens to a packet at `at`: it enters its next hop, or arrives.
struct Event {
  Nanoseconds at = 0;
  std::uint64_t number = 0;  ///< in the order of their making, which decides among equals
  std::unique_ptr<Packet> packet;
};
struct Later {
  bool operator()(const Event& a, const Event& b) const { return std::tie(a.at, a.number) > std::tie(b.at, b.number); }
};

volatile std::sig_atomic_t stop_asked = 0;

Nanoseconds now() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

[[noreturn]] void fail(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

/// A TUN in another network namespace; this thread stays in its own.
int open_tun(const std::string& netns) {
  const int own = ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  const int there = ::open(netns.c_str(), O_RDONLY | O_CLOEXEC);
  if (own < 0 || there < 0 || ::setns(there, CLONE_NEWNET) != 0) fail(netns);
  const int tun = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (tun < 0) fail("/dev/net/tun");
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  std::strcpy(request.ifr_name, "wan");
  if (::ioctl(tun, TUNSETIFF, &request) != 0) fail("a TUN in " + netns);
  if (::ioctl(tun, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0) fail("unsplit segments on a TUN");
  if (::setns(own, CLONE_NEWNET) != 0) fail("the relay's own namespace");
  ::close(there);
  ::close(own);
  return tun;
}

Route read_route(std::istream& words) {
  Route route;
  std::string list;
  words >> route.latency >> list;
  std::istringstream hops(list);
  for (std::string hop; std::getline(hops, hop, ',');) route.hops.push_back(std::stoul(hop));
  return route;
}

Network read_network(std::istream& in) {
  Network network;
  for (std::string line, word; std::getline(in, line);) {
    std::istringstream words(line);
    words >> word;
    if (word == "device") {
      std::string netns;
      words >> netns;
      network.tuns.push_back(open_tun(netns));
    } else if (word == "hop") {
      double bits_per_s = 0;
      Hop hop;
      words >> bits_per_s >> hop.queue_bytes;
      hop.ns_per_byte = 8e9 / bits_per_s;
      network.hops.push_back(hop);
    } else if (word == "route") {
      std::size_t from = 0, to = 0;
      words >> from >> to;
      network.routes[{from, to}] = read_route(words);
    }
    if (!words) throw std::runtime_error("not understood: " + line);
  }
  return network;
}

/// Bytes that TCP or UDP carry; all of the packet for what is neither.
std::int64_t payload_of(const char* ip, std::size_t size) {
  constexpr std::size_t tcp = 6, udp = 17, udp_header = 8;
  const auto byte = [ip](std::size_t at) { return static_cast<std::size_t>(static_cast<unsigned char>(ip[at])); };
  const std::size_t header = (byte(0) & 15) * 4;
  std::size_t inner = 0;
  if (byte(9) == tcp && size > header + 12) inner = header + (byte(header + 12) >> 4) * 4;
  if (byte(9) == udp) inner = header + udp_header;
  return static_cast<std::int64_t>(size - std::min(size, inner));
}

class Relay {
 public:
  explicit Relay(Network network) : network_(std::move(network)) {}

  void run() {
    std::vector<pollfd> polled;
    for (const int tun : network_.tuns) polled.push_back({tun, POLLIN, 0});
    while (stop_asked == 0) {
      handle_due();
      wait(polled);
      for (std::size_t device = 0; device < polled.size(); ++device)
        if ((polled[device].revents & POLLIN) != 0) take_in(device);
    }
  }

  std::uint64_t dropped() const {
    std::uint64_t sum = 0;
    for (const Hop& hop : network_.hops) sum += hop.dropped;
    return sum;
  }

 private:
  void wait(std::vector<pollfd>& polled) {
    timespec rest{};
    if (!events_.empty()) {
      const Nanoseconds until = std::max<Nanoseconds>(0, events_.top().at - now());
      rest = {until / 1'000'000'000, until % 1'000'000'000};
    }
    if (::ppoll(polled.data(), polled.size(), events_.empty() ? nullptr : &rest, nullptr) < 0 && errno != EINTR)
      fail("poll");
  }

  /// What a device has sent, some packets at a time so that none of the others waits long.
  void take_in(std::size_t device) {
    constexpr int at_once = 32;
    for (int i = 0; i < at_once; ++i) {
      const ssize_t size = ::read(network_.tuns[device], buffer_.data(), buffer_.size());
      if (size <= 0) return;
      route_packet(device, static_cast<std::size_t>(size));
    }
  }

  void route_packet(std::size_t from, std::size_t size) {
    constexpr std::size_t head = virtio_header, ip_header = 20;
    const char* ip = buffer_.data() + head;
    if (size < head + ip_header || (ip[0] >> 4 & 15) != 4) return;  // IPv4 alone is routed here
    const auto byte = [ip](std::size_t at) { return static_cast<std::size_t>(static_cast<unsigned char>(ip[at])); };
    const std::size_t to = byte(18) * 256 + byte(19) - 1;
    const auto route = network_.routes.find({from, to});
    if (route == network_.routes.end()) return;
    auto packet = std::make_unique<Packet>();
    packet->frame.assign(buffer_.data(), buffer_.data() + size);
    packet->payload = payload_of(ip, size - head);
    packet->to = to;
    packet->route = &route->second;
    enter(std::move(packet), now());
  }

  void enter(std::unique_ptr<Packet> packet, Nanoseconds at) {
    Hop& hop = network_.hops[packet->route->hops[packet->next_hop++]];
    const Nanoseconds start = std::max(at, hop.free_at);
    if (static_cast<double>(start - at) > static_cast<double>(hop.queue_bytes) * hop.ns_per_byte) {
      ++hop.dropped;
      return;
    }
    hop.free_at = start + static_cast<Nanoseconds>(static_cast<double>(packet->payload) * hop.ns_per_byte);
    packet->end = std::max(packet->end, hop.free_at);
    const bool last = packet->next_hop == packet->route->hops.size();
    const Nanoseconds next = last ? packet->end + packet->route->latency : start;
    events_.push({next, ++made_, std::move(packet)});
  }

  void handle_due() {
    while (!events_.empty() && events_.top().at <= now()) {
      const Nanoseconds at = events_.top().at;
      // The queue hands out constant references; the one moved from is popped at once.
      std::unique_ptr<Packet> packet = std::move(const_cast<Event&>(events_.top()).packet);
      events_.pop();
      if (packet->next_hop < packet->route->hops.size())
        enter(std::move(packet), at);
      else if (::write(network_.tuns[packet->to], packet->frame.data(), packet->frame.size()) < 0)
        ++network_.hops[packet->route->hops.back()].dropped;
    }
  }

  static constexpr std::size_t largest_segment = 1 << 17;
  Network network_;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  std::uint64_t made_ = 0;
  std::vector<char> buffer_ = std::vector<char>(largest_segment);
};

/// Wakes on time though others compute: real-time where that is allowed, else merely early in the queue.
void hurry() {
  sched_param parameter{};
  parameter.sched_priority = 1;
  if (::sched_setscheduler(0, SCHED_FIFO, &parameter) != 0) ::setpriority(PRIO_PROCESS, 0, -20);
  ::prctl(PR_SET_TIMERSLACK, 1UL);
}

}  // namespace

int main() {
  try {
    std::signal(SIGTERM, [](int) { stop_asked = 1; });
    Relay relay(read_network(std::cin));
    hurry();
    std::puts("ready");
    std::fflush(stdout);
    relay.run();
    std::printf("dropped %llu packets\n", static_cast<unsigned long long>(relay.dropped()));
    return 0;
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "netlab-relay: %s\n", fault.what());
    return 5;
  }
}
