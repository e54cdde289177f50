// Exact top-k by magnitude in one launch, the same bits as core/compress/topk.h.
//
//   collect   one pass: elements at or above a threshold (last call's, a little lowered; else from a sample) become
//             candidates, in index order within each tile of 8,192 elements, and are counted by magnitude. With error
//             feedback the same pass writes the next residual, with zero in the candidates' places.
//   narrow    histograms of ever fewer bits, of the candidates alone, until the k-th magnitude is known.
//   count     per tile, elements above that magnitude and of it, and what goes before the tile.
//   write     the k elements to their places, and candidates that lost back into the residual.
//
// A threshold that fewer than k elements reach, or too many for the room, costs time, never exactness: the next one is
// sampled, and if that fails too (many ties), `narrow` to `write` run over the input itself.
//
// Two numbers at n = 10^8 fp32, k = 1 %. Bytes: 4n read = 400 MB (93 us at 4.3 TB/s); 12n with error feedback, read x,
// read and write a residual = 1.2 GB (279 us). Beside them candidates: 6 bytes written once and read three times, out
// of the second-level cache, and 12 bytes written per selected element: 12 MB, 3 % of the read. Phases are parted by
// three barriers of the grid.
//
// Order-dependent: only where a tile's candidates lie in the workspace, which no result shows. Counts are sums, and
// places follow from sums over tiles in index order.
#pragma once

#include "exec/kernels/device.cuh"
#include "exec/kernels/topk_data.h"

namespace fusion::exec {

/// Where the k-th largest magnitude lies: in [low, low + 4096 << shift of the next pass), as the `wanted`-th largest
/// there.
struct TopkBucket {
  std::uint32_t low;
  Count wanted;
};

struct TopkShared {
  std::uint32_t histogram[topk_bins];
  Count sums[topk_threads / 32];
  std::uint32_t warp_count[topk_threads / 32];
  Count offset;
  std::uint32_t bin;  ///< what `pick` found
  Count above;
};

/// One thread of the kernel, and what it knows.
template <class T>
class TopkThread {
 public:
  __device__ TopkThread(const TopkCall<T>& call, TopkShared& shared)
      : c_(call), s_(shared), tiles_(own_range((call.n + topk_tile - 1) / topk_tile)) {}

  __device__ void run() {
    const std::uint32_t hint = c_.cells->hint;
    int attempt = 0;
    const bool warm = hint != 0 && c_.k != 0;
    bool found = warm && collect(lowered(hint), attempt);
    if (!found && !(warm && not_finite()))
      found = collect(c_.k == 0 ? infinity_bits : sampled_threshold(), attempt = 1);
    const Count first = not_finite();
    direct_ = !found;
    TopkBucket kth{infinity_bits, 0};
    if (!first && c_.k != 0) kth = narrow(attempt);
    if (!first) count(kth);
    grid_sync();
    if (first)
      keep_residual();
    else
      write(kth);
    finish(first, kth);
  }

 private:
  static constexpr unsigned rows = 8, row = 128;  // of a warp: each lane takes 4 neighbours per row
  static constexpr unsigned warps = topk_threads / 32;

  // Gradients shrink slowly: a little below last call's threshold is most often enough.
  __device__ static std::uint32_t lowered(std::uint32_t hint) { return magnitude_bits(0.98f * __uint_as_float(hint)); }

  /// The complement of the first such index, 0 where there is none. Known after the first pass.
  __device__ Count not_finite() const { return c_.cells->not_finite; }

  __device__ float at(Count i) const { return c_.residual ? widen(c_.x[i]) + c_.residual[i] : widen(c_.x[i]); }

  /// What slightly more than k elements reach, most probably. One position at random per stride, so that no period of
  /// the data can hide from it.
  __device__ std::uint32_t sampled_threshold() {
    if (c_.sample_size == 0) return 0;
    const Count stride = c_.n / c_.sample_size;
    const unsigned first = blockIdx.x * topk_threads + threadIdx.x;
    for (Count i = first; i < c_.sample_size; i += gridDim.x * topk_threads)
      atomicAdd(&c_.cells->sample[magnitude_bits(at(i * stride + mix(i) % stride)) >> 19], 1);
    grid_sync();
    pick(c_.cells->sample, topk_bins, c_.sample_rank);
    const std::uint32_t floor = s_.bin << 19;
    return floor < infinity_bits ? floor : infinity_bits;
  }

  /// The highest bin that, with all above it, holds `wanted` elements; there are as many. Leaves `bin` and `above` in
  /// shared memory.
  __device__ void pick(const Count* counts, unsigned bins, Count wanted) {
    const unsigned each = (bins + topk_threads - 1) / topk_threads, first = threadIdx.x * each;
    Count own = 0, total;
    for (unsigned i = first; i < first + each && i < bins; ++i) own += counts[bins - 1 - i];
    Count above = block_exclusive_sum<topk_threads>(own, s_.sums, total);
    if (above < wanted && wanted <= above + own) {
      unsigned bin = bins - 1 - first;
      while (above + counts[bin] < wanted) above += counts[bin--];
      s_.bin = bin;
      s_.above = above;
    }
    __syncthreads();
  }

  __device__ void clear_histogram() {
    __syncthreads();
    for (unsigned i = threadIdx.x; i < topk_bins; i += topk_threads) s_.histogram[i] = 0;
    __syncthreads();
  }

  __device__ void add_histogram_to(Count* counts) {
    __syncthreads();
    for (unsigned i = threadIdx.x; i < topk_bins; i += topk_threads)
      if (s_.histogram[i] != 0) atomicAdd(&counts[i], s_.histogram[i]);
  }

  // ---- collect ----

  /// True where between k and `capacity` elements reach the threshold, and all are finite.
  __device__ bool collect(std::uint32_t threshold, int attempt) {
    threshold_ = threshold;
    clear_histogram();
    for (Count tile = tiles_.begin; tile < tiles_.end; ++tile) collect_tile(tile, &c_.cells->candidates[attempt]);
    add_histogram_to(c_.cells->octave[attempt]);
    grid_sync();
    const Count candidates = c_.cells->candidates[attempt];
    return c_.k <= candidates && candidates <= c_.capacity && !not_finite();
  }

  __device__ void collect_tile(Count tile, Count* candidates) {
    const Count first = tile * topk_tile + warp() * (rows * row);  // of this warp
    const std::uint32_t mask = reaching(first);
    Count before = 0;
    Count totals = 0;
    count_rows(mask, before, totals);
    const std::uint32_t in_warp = sum_bytes(totals);
    if (lane() == 0) s_.warp_count[warp()] = in_warp;
    __syncthreads();
    std::uint32_t place = 0, in_tile = 0;
    for (unsigned w = 0; w < warps; ++w) {
      place += w < warp() ? s_.warp_count[w] : 0;
      in_tile += s_.warp_count[w];
    }
    if (threadIdx.x == 0) {
      s_.offset = atomicAdd(candidates, in_tile);
      c_.tiles[tile].offset = s_.offset;
      c_.tiles[tile].count = in_tile;
    }
    __syncthreads();
    const Count offset = s_.offset;
    const bool room = offset + in_tile <= c_.capacity;
    append(first, mask, before, totals, offset + place, room);
  }

  /// Bit 4 r + j of a lane: its j-th element of row r reaches the threshold. Writes the residual on the way.
  __device__ std::uint32_t reaching(Count first) {
    float v[rows][4];
    const bool whole = c_.aligned && first + rows * row <= c_.n;
    load(first, whole, v);
    std::uint32_t mask = 0;
    for (unsigned r = 0; r < rows; ++r)
      for (unsigned j = 0; j < 4; ++j) mask |= (magnitude_bits(v[r][j]) >= threshold_ ? 1u : 0u) << (4 * r + j);
    if (!whole) mask &= present(first);
    if (c_.residual) store_residual(first, whole, v, mask);
    return mask;
  }

  __device__ Count element(Count first, unsigned bit) const { return first + bit / 4 * row + lane() * 4 + bit % 4; }

  __device__ std::uint32_t present(Count first) const {
    std::uint32_t mask = 0;
    for (unsigned bit = 0; bit < 32; ++bit) mask |= (element(first, bit) < c_.n ? 1u : 0u) << bit;
    return mask;
  }

  __device__ void load(Count first, bool whole, float (&v)[rows][4]) const {
    if (!whole) {
      for (unsigned r = 0; r < rows; ++r)
        for (unsigned j = 0; j < 4; ++j) {
          const Count i = element(first, 4 * r + j);
          v[r][j] = i < c_.n ? at(i) : 0;
        }
      return;
    }
    Quad<T> x[rows];
    for (unsigned r = 0; r < rows; ++r) x[r] = *reinterpret_cast<const Quad<T>*>(c_.x + element(first, 4 * r));
    for (unsigned r = 0; r < rows; ++r)
      for (unsigned j = 0; j < 4; ++j) v[r][j] = widen(x[r].at[j]);
    if (!c_.residual) return;
    Quad<float> e[rows];
    for (unsigned r = 0; r < rows; ++r)
      e[r] = *reinterpret_cast<const Quad<float>*>(c_.residual + element(first, 4 * r));
    for (unsigned r = 0; r < rows; ++r)
      for (unsigned j = 0; j < 4; ++j) v[r][j] += e[r].at[j];
  }

  __device__ void store_residual(Count first, bool whole, float (&v)[rows][4], std::uint32_t mask) {
    for (unsigned r = 0; r < rows; ++r) {
      Quad<float> left;
      for (unsigned j = 0; j < 4; ++j) left.at[j] = (mask >> (4 * r + j) & 1u) ? 0.0f : v[r][j];
      if (whole) {
        *reinterpret_cast<Quad<float>*>(c_.next_residual + element(first, 4 * r)) = left;
        continue;
      }
      for (unsigned j = 0; j < 4; ++j)
        if (const Count i = element(first, 4 * r + j); i < c_.n) c_.next_residual[i] = left.at[j];
    }
  }

  /// Candidates of each row, a byte a row (even rows, then odd ones): in the lanes before this, and in the warp.
  __device__ static void count_rows(std::uint32_t mask, Count& before, Count& totals) {
    std::uint32_t pairs = mask - ((mask >> 1) & 0x55555555u);
    pairs = (pairs & 0x33333333u) + ((pairs >> 2) & 0x33333333u);  // a count in every half byte
    const Count own = (pairs & 0x0f0f0f0fu) | static_cast<Count>((pairs >> 4) & 0x0f0f0f0fu) << 32;
    const Count inclusive = warp_inclusive_sum(own);
    before = inclusive - own;
    totals = __shfl_sync(all_lanes, inclusive, 31);
  }

  __device__ static std::uint32_t sum_bytes(Count bytes) {
    const unsigned low = static_cast<unsigned>(bytes), high = static_cast<unsigned>(bytes >> 32);
    return __dp4a(low, 0x01010101u, __dp4a(high, 0x01010101u, 0u));
  }

  /// Of a byte per row, those of rows before r.
  __device__ static Count rows_before(unsigned r) {
    const Count even = (1ull << (r + 1) / 2 * 8) - 1, odd = (1ull << r / 2 * 8) - 1;
    return (even & 0xffffffffu) | odd << 32;
  }

  /// Candidates to their places from `place` on, where there is room; values that are not finite are noted anyway.
  __device__ void append(Count first, std::uint32_t mask, Count before, Count totals, Count place, bool room) {
    for (std::uint32_t left = mask; left != 0; left &= left - 1) {
      const unsigned bit = static_cast<unsigned>(__ffs(static_cast<int>(left))) - 1, r = bit / 4;
      const Count i = element(first, bit);
      const float v = at(i);  // again, out of the cache: an array of registers has no index
      if (magnitude_bits(v) >= infinity_bits) atomicMax(&c_.cells->not_finite, ~i);
      if (!room) continue;
      const unsigned in_row = (before >> ((r & 1) * 32 + r / 2 * 8)) & 0xffu;
      const unsigned own = static_cast<unsigned>(__popc(mask & ((1u << bit) - 1) & (0xfu << r * 4)));
      const Count to = place + sum_bytes(totals & rows_before(r)) + in_row + own;
      c_.candidate[to] = v;
      c_.position[to] = static_cast<std::uint16_t>(i % topk_tile);
      const std::uint32_t bin = (magnitude_bits(v) - threshold_) >> 12;
      atomicAdd(&s_.histogram[bin < topk_octave_bins ? bin : topk_octave_bins - 1], 1);
    }
  }

  // ---- narrow, count, write: over candidates, or over the input where collecting failed ----

  /// Calls visit(valid, value, index) for the tile's elements in index order; whole warps.
  template <class Visit>
  __device__ void each_element(Count tile, Visit visit) const {
    const Count first = tile * topk_tile, offset = c_.tiles[tile].offset;
    const unsigned size = direct_ ? static_cast<unsigned>(smaller(topk_tile, c_.n - first)) : c_.tiles[tile].count;
    for (unsigned from = 0; from < size; from += 32) {
      const unsigned i = from + lane();
      if (i >= size)
        visit(false, 0.0f, 0);
      else if (direct_)
        visit(true, at(first + i), first + i);
      else
        visit(true, c_.candidate[offset + i], first + c_.position[offset + i]);
    }
  }

  struct Pass {
    unsigned shift, bins;
  };
  __device__ static Pass pass(int i) { return i == 0 ? Pass{19, 4096} : i == 1 ? Pass{12, 128} : Pass{0, 4096}; }

  /// The k-th magnitude, and how many elements of it are selected.
  __device__ TopkBucket narrow(int attempt) {
    TopkBucket bucket{0, c_.k};
    int next = 0;
    if (!direct_) {
      pick(c_.cells->octave[attempt], topk_octave_bins, c_.k);
      if (s_.bin != topk_octave_bins - 1) {  // the last one holds all that is beyond the octave
        bucket = {threshold_ + (s_.bin << 12), c_.k - s_.above};
        next = 2;
      }
    }
    for (; next < 3; ++next) {
      count_digits(bucket, next);
      pick(c_.cells->digits[next], pass(next).bins, bucket.wanted);
      bucket.low += s_.bin << pass(next).shift;
      bucket.wanted -= s_.above;
    }
    return bucket;
  }

  __device__ void count_digits(const TopkBucket& bucket, int next) {
    clear_histogram();
    const Pass p = pass(next);
    for (Count tile = tiles_.begin + warp(); tile < tiles_.end; tile += warps)
      each_element(tile, [&](bool valid, float v, Count) {
        const std::uint32_t above = magnitude_bits(v) - bucket.low;  // wraps where the magnitude is below
        add_digit(above >> p.shift, valid && above >> p.shift < p.bins);
      });
    add_histogram_to(c_.cells->digits[next]);
    grid_sync();
  }

  /// Adds one per lane; one for all where they agree, for in a constant tensor each would wait for the others.
  __device__ void add_digit(std::uint32_t bin, bool valid) {
    const unsigned adding = __ballot_sync(all_lanes, valid);
    if (adding == 0) return;
    const unsigned first = static_cast<unsigned>(__ffs(static_cast<int>(adding))) - 1;
    const std::uint32_t common = __shfl_sync(all_lanes, bin, first);
    const bool agree = __ballot_sync(all_lanes, valid && bin == common) == adding;
    if (valid && (!agree || lane() == first))
      atomicAdd(&s_.histogram[bin], agree ? static_cast<std::uint32_t>(__popc(adding)) : 1u);
  }

  __device__ void count(const TopkBucket& kth) {
    for (Count tile = tiles_.begin + warp(); tile < tiles_.end; tile += warps) {
      Count greater = 0, equal = 0;
      each_element(tile, [&](bool valid, float v, Count) {
        const std::uint32_t magnitude = magnitude_bits(v);
        greater += static_cast<Count>(__popc(__ballot_sync(all_lanes, valid && magnitude > kth.low)));
        equal += static_cast<Count>(__popc(__ballot_sync(all_lanes, valid && magnitude == kth.low)));
      });
      if (lane() == 0) c_.tiles[tile].greater = greater;
      if (lane() == 0) c_.tiles[tile].equal = equal;
    }
    __syncthreads();
    if (warp() == 0) sum_tiles();
  }

  /// From counts per tile to counts before the tile, within this block; one warp.
  __device__ void sum_tiles() {
    TopkTotals before{0, 0};
    for (Count from = tiles_.begin; from < tiles_.end; from += 32) {
      const Count tile = from + lane();
      const bool valid = tile < tiles_.end;
      const Count greater = valid ? c_.tiles[tile].greater : 0, equal = valid ? c_.tiles[tile].equal : 0;
      const Count greater_sum = warp_inclusive_sum(greater), equal_sum = warp_inclusive_sum(equal);
      if (valid) c_.tiles[tile].greater = before.greater + greater_sum - greater;
      if (valid) c_.tiles[tile].equal = before.equal + equal_sum - equal;
      before.greater += __shfl_sync(all_lanes, greater_sum, 31);
      before.equal += __shfl_sync(all_lanes, equal_sum, 31);
    }
    if (lane() == 0) c_.totals[blockIdx.x] = before;
  }

  /// Elements in the blocks before this one.
  __device__ TopkTotals before_block() {
    TopkTotals own{0, 0}, sum{0, 0};
    for (unsigned b = threadIdx.x; b < blockIdx.x; b += topk_threads) {
      own.greater += c_.totals[b].greater;
      own.equal += c_.totals[b].equal;
    }
    block_exclusive_sum<topk_threads>(own.greater, s_.sums, sum.greater);
    block_exclusive_sum<topk_threads>(own.equal, s_.sums, sum.equal);
    return sum;
  }

  __device__ void write(const TopkBucket& kth) {
    const TopkTotals before = before_block();
    for (Count tile = tiles_.begin + warp(); tile < tiles_.end; tile += warps) {
      Count greater = before.greater + c_.tiles[tile].greater, equal = before.equal + c_.tiles[tile].equal;
      each_element(tile, [&](bool valid, float v, Count i) {
        const std::uint32_t magnitude = magnitude_bits(v);
        const bool is_greater = valid && magnitude > kth.low, is_equal = valid && magnitude == kth.low;
        const unsigned greater_lanes = __ballot_sync(all_lanes, is_greater);
        const unsigned equal_lanes = __ballot_sync(all_lanes, is_equal);
        const Count ties = equal + static_cast<Count>(__popc(equal_lanes & lanes_below()));
        const bool kept = is_greater || (is_equal && ties < kth.wanted);
        const Count place =
            greater + static_cast<Count>(__popc(greater_lanes & lanes_below())) + smaller(ties, kth.wanted);
        if (kept) c_.index[place] = i;
        if (kept) c_.value[place] = v;
        if (c_.residual && valid && (direct_ || !kept)) c_.next_residual[i] = kept ? 0.0f : v;
        greater += static_cast<Count>(__popc(greater_lanes));
        equal += static_cast<Count>(__popc(equal_lanes));
      });
    }
  }

  /// Where a value is not finite, nothing is selected and the residual stays what it was.
  __device__ void keep_residual() const {
    if (!c_.residual) return;
    const Count end = smaller(tiles_.end * topk_tile, c_.n);
    for (Count i = tiles_.begin * topk_tile + threadIdx.x; i < end; i += topk_threads)
      c_.next_residual[i] = c_.residual[i];
  }

  /// The result, and cells ready for the next call. Every block has read them by now: all are past the last barrier.
  __device__ void finish(Count first_not_finite, const TopkBucket& kth) const {
    TopkCells& cells = *c_.cells;
    const unsigned thread = blockIdx.x * topk_threads + threadIdx.x, threads = gridDim.x * topk_threads;
    for (unsigned i = thread; i < topk_bins; i += threads)
      cells.sample[i] = cells.digits[0][i] = cells.digits[1][i] = cells.digits[2][i] = 0;
    for (unsigned i = thread; i < topk_octave_bins; i += threads) cells.octave[0][i] = cells.octave[1][i] = 0;
    if (thread != 0) return;
    cells.candidates[0] = cells.candidates[1] = cells.not_finite = 0;
    if (!first_not_finite && c_.k != 0) cells.hint = kth.low;
    c_.result->count = first_not_finite ? 0 : c_.k;
    c_.result->first_not_finite = first_not_finite ? ~first_not_finite : 0;
    c_.result->has_not_finite = first_not_finite ? 1 : 0;
    c_.result->threshold = first_not_finite || c_.k == 0 ? 0.0f : __uint_as_float(kth.low);
  }

  const TopkCall<T>& c_;
  TopkShared& s_;
  Range tiles_;
  std::uint32_t threshold_ = 0;
  bool direct_ = false;
};

template <class T>
struct TopkKernel {
  static constexpr unsigned threads = topk_threads;
  static constexpr unsigned blocks_per_processor = 4;
  static constexpr bool cooperative = true;
  using Shared = TopkShared;

  TopkCall<T> call;
  __device__ void operator()(Shared& shared) const { TopkThread<T>(call, shared).run(); }
};

}  // namespace fusion::exec
