// Pipeline orders: in which sequence a device works through forward and backward of its micro-batches. One row each,
// or a file (order_file.h).
//
// A device may run several stages of the pipeline, its *chunks* (virtual stages). With p devices and c chunks there are
// p c stages. They go round the devices (loop: stage s is on device s mod p), or there and back (v: for p = 3 the
// devices 0 1 2 2 1 0), so that the last stage is beside the first and one hop is a hand-over.
//
// The backward pass may be split into its two halves: the input gradient, for which the device before waits, and the
// weight gradient, for which nobody does, and which fills what would be a bubble.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fusion {

enum class Phase : std::uint8_t {
  forward,
  backward,        ///< input and weight gradient in one
  input_gradient,  ///< the two halves of orders that split the backward pass
  weight_gradient,
  exchange,  ///< parameter gradients between devices: tied parameters, replicas
  update     ///< optimizer step
};
std::string_view name_of(Phase);

/// One turn of a device.
struct Slot {
  Phase phase;
  int chunk;  ///< which of the device's stages (0 unless the order has virtual stages)
  int micro_batch;
  bool operator==(const Slot&) const = default;
};

/// A device of a pipeline, by its place there.
struct OrderShape {
  int num_devices;
  int device;
  int micro_batches;
};

/// Turns of a device, repeated. The k-th turn of a phase on a chunk takes micro-batch k; those past the last are left
/// out, as are the passes they would belong to.
struct Turn {
  Phase phase;
  int chunk;
};
/// The chunks take turns: as many forwards on one as there are micro-batches in a round (about p), then on the next;
/// backwards the same way from the last chunk to the first.
constexpr int rotating = -1;
struct Repeat {
  std::vector<Turn> turns;
  int times;
};

struct OrderRow {
  std::string_view name;
  std::string_view help;
  int chunks;         ///< per device; where `takes_chunks`, unless the name says how many: "interleaved:3"
  bool takes_chunks;  ///< any number from 1 to max_chunks
  bool v_shaped;
  bool splits_backward;
  bool phases_apart;  ///< every forward of an iteration comes before its first backward
  std::vector<Repeat> (*repeats)(const OrderShape&, int chunks);
  /// Most pairs of chunk and micro-batch whose activations the device holds at once: from a forward to the end of its
  /// backward, the weight gradient's where the two halves are apart. The peak found by walking the slots (tests hold
  /// them together).
  int (*held)(const OrderShape&, int chunks);
};

constexpr int max_chunks = 64;

/// A row with its parameter, or the table of a file.
struct Order {
  std::string name;  ///< "1f1b", "interleaved:2", "mine.csv"
  int chunks = 1;
  bool splits_backward = false;
  bool phases_apart = false;
  const OrderRow* row = nullptr;  ///< of a built-in order, else null and there is a table
  std::shared_ptr<const struct OrderTable> table{};

  /// Precondition: a file's shape is the table's.
  std::vector<Slot> slots(const OrderShape&) const;
  /// Most micro-batches whose activations a device holds at once, those of one chunk counted as 1 / chunks and the sum
  /// rounded up: what a policy, which gives each device one share, multiplies by. A policy may ask for other numbers of
  /// devices than a file has: all micro-batches.
  int in_flight(const OrderShape&) const;

  /// One stage per device and a backward pass in one: what predict() knows, and the executor runs.
  bool is_plain() const { return chunks == 1 && !splits_backward; }

  /// Throws InputError where a file is for another number of devices.
  void require_devices(int num_devices) const;
  int stage_of(int device, int chunk, int num_devices) const;
  int device_of(int stage, int num_devices) const;
  int chunk_of(int stage, int num_devices) const;
};

/// gpipe: all forwards, then all backwards. 1f1b: stage s runs min(m, p - s) forwards, then alternates
/// (PipeDream-flush). interleaved: 1f1b over virtual stages (Narayanan et al. 2021, arXiv 2104.04473, 2.2). zb-h1: 1f1b
/// with the weight gradients in its bubbles, within its memory (Qi et al. 2024, arXiv 2401.10241, 2.1). zbv: two chunks
/// there and back, no bubble where the three passes take equally long (ibid., 6; arXiv 2405.15362).
///
/// Time beyond the work of one device, with t_F, t_I, t_W of a device's whole share, t_B = t_I + t_W, m >= p, no
/// communication:
///   gpipe, 1f1b   (p - 1) (t_F + t_B)
///   interleaved   (p - 1) (t_F + t_B) / c
///   zb-h1         (p - 1) (t_F + t_I - t_W), where t_W <= t_F, t_I
///   zbv           (p - 1) t / 2 for t = t_F = t_I = t_W and m >= 2 p - 1, all of it before a device's first turn or
///                 after its last: in between it never waits
std::span<const OrderRow> order_table();

/// A row's name, with ":CHUNKS" where it takes them, or the path of a ".csv" file, which is read and checked
/// (order_file.h). Throws std::invalid_argument with the nearest names, InputError for what is wrong in the file.
Order parse_order(std::string_view name);
/// The same, for a caller that knows no file and key: throws InputError alone.
Order find_order(std::string_view name);

/// The order of a run that has `micro_batches`: throws InputError where a file is for another number.
Order find_order(std::string_view name, int micro_batches);

}  // namespace fusion
