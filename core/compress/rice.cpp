#include "core/compress/rice.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "core/base/error.h"

namespace fusion::compress {
namespace {

constexpr int max_parameter = 31;
constexpr int max_zeros = 24;                               // then the escape
constexpr std::uint64_t longest_code = max_zeros + 1 + 64;  // bits
constexpr std::uint64_t kept_per_block = 1024;  // where the density is even: parameters cost 0.008 bits per index

/// The best parameter for `count` gaps of sum `total`, and about the bits they take.
struct Choice {
  int parameter = 0;
  double bits = 0;
};

/// A gap reaches g with probability e^(-g / scale), scale = 1 / log(1 + 1 / mean), so that with x = 2^p / scale its
/// quotient is on average 1 / (e^x - 1) = 1/x - 1/2 + x/12 - …; and scale = mean + 1/2 - 1 / (12 mean) + …
Choice choose(std::uint64_t count, std::uint64_t total) {
  if (count == 0) return {};
  const double m = static_cast<double>(count), mean = static_cast<double>(total) / m;
  const auto bits = [&](int p) {
    if (p == 0) return m + static_cast<double>(total);
    const double x = static_cast<double>(std::uint64_t{1} << p) / (mean + 0.5);
    return m * (p + 0.5 + 1 / x + x / 12);
  };
  const auto scaled = static_cast<std::uint64_t>(mean * 0.6931);
  const int guess = std::clamp(static_cast<int>(std::bit_width(scaled)) - 1, 0, max_parameter - 1);
  const double low = bits(guess), high = mean > 0 ? bits(guess + 1) : low;
  return low <= high ? Choice{guess, low} : Choice{guess + 1, high};
}

/// The first position from i on whose index is `bound` or more: steps that double, then halve.
std::size_t skip_below(std::span<const std::uint64_t> index, std::size_t i, std::uint64_t bound) {
  std::size_t step = 1;
  while (i + step < index.size() && index[i + step] < bound) step *= 2;
  const auto from = index.begin() + static_cast<std::ptrdiff_t>(i);
  const auto to = index.begin() + static_cast<std::ptrdiff_t>(std::min(i + step + 1, index.size()));
  return static_cast<std::size_t>(std::lower_bound(from, to, bound) - index.begin());
}

struct Plan {
  std::uint64_t block = 1;  ///< L
  std::vector<std::byte> parameters;
  double bits = 0;  ///< of all, parameters included
};

/// A gap belongs to the block of the position after the previous index.
Plan plan_blocks(std::span<const std::uint64_t> index, std::uint64_t elements, std::uint64_t block) {
  Plan plan{block, std::vector<std::byte>(elements / block + (elements % block != 0)), 0};
  plan.bits = 8.0 * static_cast<double>(plan.parameters.size()) + 64;
  std::uint64_t next = 0;
  for (std::size_t i = 0; i < index.size();) {
    const std::uint64_t at = next / block;
    const std::size_t stop = std::min(skip_below(index, i, at * block + block - 1) + 1, index.size());
    const std::uint64_t count = stop - i, end = index[stop - 1] + 1;
    const Choice choice = choose(count, end - next - count);
    plan.parameters[at] = static_cast<std::byte>(choice.parameter);
    plan.bits += choice.bits;
    next = end;
    i = stop;
  }
  return plan;
}

/// L where rows don't matter.
std::uint64_t even_block(std::uint64_t elements, std::uint64_t count) {
  return std::max<std::uint64_t>(count <= kept_per_block ? elements : elements / count * kept_per_block, 1);
}

Plan best_plan(std::span<const std::uint64_t> index, std::uint64_t elements, std::uint64_t row) {
  const std::uint64_t count = std::max<std::uint64_t>(index.size(), 1);
  Plan best = plan_blocks(index, elements, even_block(elements, count));
  // Rows pay for their parameters only where they hold several indices each.
  if (row > 1 && row < elements && elements / row <= count) {
    Plan rows = plan_blocks(index, elements, row);
    if (rows.bits < best.bits) return rows;
  }
  return best;
}

/// Bits to memory, lowest first. The caller keeps 16 bytes of room ahead.
class BitWriter {
 public:
  explicit BitWriter(std::byte* to) : to_(to) {}
  /// At most 56 bits.
  void put(std::uint64_t bits, int count) {
    word_ |= bits << used_;
    used_ += count;
    std::memcpy(to_, &word_, 8);
    to_ += used_ >> 3;
    word_ >>= used_ & ~7;
    used_ &= 7;
  }
  std::byte* finish() { return used_ > 0 ? to_ + 1 : to_; }
  std::byte* position() const { return to_; }
  void move_to(std::byte* to) { to_ = to; }

 private:
  std::byte* to_;
  std::uint64_t word_ = 0;
  int used_ = 0;
};

void put_gap(BitWriter& bits, std::uint64_t gap, int p) {
  const std::uint64_t quotient = gap >> p;
  if (quotient < max_zeros) [[likely]] {
    const int zeros = static_cast<int>(quotient);
    bits.put((std::uint64_t{1} | (gap & ((std::uint64_t{1} << p) - 1)) << 1) << zeros, zeros + 1 + p);
  } else {
    bits.put(std::uint64_t{1} << max_zeros, max_zeros + 1);
    bits.put(gap & 0xffffffffu, 32);
    bits.put(gap >> 32, 32);
  }
}

/// Two gaps of one parameter in one step, where both codes are short: the writer's steps wait for one another.
bool put_pair(BitWriter& bits, std::uint64_t first, std::uint64_t second, int p) {
  const std::uint64_t zeros = first >> p, more_zeros = second >> p;
  const int length = p + 1;
  const auto limit = static_cast<std::uint64_t>(std::clamp(29 - length, 0, max_zeros));  // 56 bits in all
  if (zeros >= limit || more_zeros >= limit) return false;
  const std::uint64_t low = (std::uint64_t{1} << p) - 1;
  const auto code = [&](std::uint64_t gap, std::uint64_t z) { return ((gap & low) << 1 | 1) << z; };
  const int first_bits = static_cast<int>(zeros) + length, second_bits = static_cast<int>(more_zeros) + length;
  bits.put(code(first, zeros) | code(second, more_zeros) << first_bits, first_bits + second_bits);
  return true;
}

[[noreturn]] void bad(std::string_view what) { throw RuntimeFault("wire message: " + std::string(what)); }

/// Bits from memory. Reading beyond the end gives zeros; `consumed` tells.
class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> from) : from_(from) { refill(); }

  /// At least 57 bits are in `word` afterwards.
  void refill() {
    const std::size_t byte = at_ >> 3;
    word_ = load(byte) >> (at_ & 7);
    left_ = 64 - static_cast<int>(at_ & 7);
  }
  int left() const { return left_; }
  std::uint64_t word() const { return word_; }
  void skip(int count) {
    word_ >>= count;
    left_ -= count;
    at_ += static_cast<std::uint64_t>(count);
  }
  std::uint64_t take32() {
    refill();
    const std::uint64_t bits = word_ & 0xffffffffu;
    skip(32);
    return bits;
  }
  bool beyond_end() const { return at_ > 8 * std::uint64_t{from_.size()}; }
  /// All bytes used, and the unused bits of the last one zero.
  bool finished() {
    refill();
    return !beyond_end() && 8 * std::uint64_t{from_.size()} - at_ < 8 && word_ == 0;
  }

 private:
  std::uint64_t load(std::size_t byte) const {
    std::uint64_t word = 0;
    if (byte + 8 <= from_.size()) [[likely]] {
      std::memcpy(&word, from_.data() + byte, 8);
    } else if (byte < from_.size()) {
      std::memcpy(&word, from_.data() + byte, from_.size() - byte);
    }
    return word;
  }
  std::span<const std::byte> from_;
  std::uint64_t at_ = 0, word_ = 0;
  int left_ = 0;
};

std::uint64_t take_gap(BitReader& bits, int p) {
  int zeros = std::countr_zero(bits.word());
  if (zeros + 1 + p > bits.left()) {  // the code may go on beyond the word
    bits.refill();
    zeros = std::countr_zero(bits.word());
  }
  if (zeros < max_zeros) [[likely]] {
    const std::uint64_t low = bits.word() >> (zeros + 1) & ((std::uint64_t{1} << p) - 1);
    bits.skip(zeros + 1 + p);
    return static_cast<std::uint64_t>(zeros) << p | low;
  }
  if (zeros > max_zeros) bad("a Rice code is too long");
  bits.skip(max_zeros + 1);
  const std::uint64_t low = bits.take32(), gap = low | bits.take32() << 32;
  if (gap >> p < max_zeros) bad("a Rice escape where none was needed");
  return gap;
}

}  // namespace

double expected_rice_bytes(std::uint64_t elements, std::uint64_t kept) {
  const std::uint64_t block = even_block(elements, kept);
  const double parameters = std::ceil(static_cast<double>(elements) / static_cast<double>(block));
  return 8 + parameters + choose(kept, elements - kept).bits / 8;
}

std::uint64_t most_rice_bytes(std::uint64_t kept) {
  const std::uint64_t parameters = kept + 2;  // rows have one each only where there are more indices than rows
  return 8 + parameters + (kept * longest_code + 7) / 8;
}

std::uint64_t rice_bytes(std::span<const std::uint64_t> index, std::uint64_t elements, std::uint64_t row) {
  return static_cast<std::uint64_t>(best_plan(index, elements, row).bits / 8) + 1;
}

void write_rice(std::span<const std::uint64_t> index, std::uint64_t elements, std::uint64_t row,
                std::vector<std::byte>& out) {
  const Plan plan = best_plan(index, elements, row);
  const std::size_t start = out.size(), head = 8 + plan.parameters.size();
  constexpr std::size_t batch = 256, batch_bytes = batch * 16;
  static_assert(longest_code <= 128);
  out.resize(start + head + static_cast<std::size_t>(plan.bits / 8 * 1.05) + 2 * batch_bytes);
  std::memcpy(out.data() + start, &plan.block, 8);
  std::copy(plan.parameters.begin(), plan.parameters.end(), out.begin() + static_cast<std::ptrdiff_t>(start + 8));
  BitWriter bits(out.data() + start + head);
  std::uint64_t next = 0, end = 0;
  int p = 0;
  for (std::size_t i = 0; i < index.size();) {
    const auto used = static_cast<std::size_t>(bits.position() - out.data());
    if (out.size() - used < batch_bytes + 16) {
      out.resize(out.size() * 3 / 2 + batch_bytes);
      bits.move_to(out.data() + used);
    }
    for (const std::size_t stop = std::min(i + batch, index.size()); i < stop; ++i) {
      if (next >= end) [[unlikely]] {
        const std::uint64_t block = next / plan.block;
        end = (block + 1) * plan.block;
        p = static_cast<int>(plan.parameters[block]);
      }
      const std::uint64_t gap = index[i] - next;
      next = index[i] + 1;
      if (i + 1 < stop && next < end && put_pair(bits, gap, index[i + 1] - next, p))
        next = index[++i] + 1;
      else
        put_gap(bits, gap, p);
    }
  }
  out.resize(static_cast<std::size_t>(bits.finish() - out.data()));
}

void read_rice(std::span<const std::byte> section, std::uint64_t elements, std::span<std::uint64_t> index) {
  std::uint64_t block_length = 0;
  if (section.size() < 8) bad("the Rice section is too short");
  std::memcpy(&block_length, section.data(), 8);
  if (block_length == 0 || block_length > std::max<std::uint64_t>(elements, 1)) bad("a Rice block has no such length");
  const std::uint64_t blocks = elements / block_length + (elements % block_length != 0);
  if (blocks > section.size() - 8) bad("the Rice section is shorter than its parameters");
  const auto parameters = section.subspan(8, blocks);
  if (std::any_of(parameters.begin(), parameters.end(), [](std::byte p) { return p > std::byte{max_parameter}; }))
    bad("a Rice parameter is above 31");
  BitReader bits(section.subspan(8 + blocks));
  std::uint64_t next = 0, end = 0;
  int p = 0;
  for (std::uint64_t& i : index) {
    if (next >= end) [[unlikely]] {
      if (next >= elements || bits.beyond_end()) bad("an index is out of range");
      const std::uint64_t block = next / block_length;
      end = std::min(elements, (block + 1) * block_length);
      p = static_cast<int>(parameters[block]);
    }
    const std::uint64_t gap = take_gap(bits, p);
    if (gap >= elements - next) bad("an index is out of range");
    i = next + gap;
    next = i + 1;
  }
  if (!bits.finished()) bad("the Rice section has another length than its count");
}

}  // namespace fusion::compress
