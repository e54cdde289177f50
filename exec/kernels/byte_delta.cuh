// Ascending indices as bytes and back, the format `byte_delta` of core/compress/index_format.h: the gap to the index
// before, less one; 255 means "255 more, and go on".
//
// Each block takes a contiguous part, sums it up, and after a barrier of the grid starts from the sum of the parts
// before.
//
// Two numbers at k = 10^6 indices: read 16 bytes per index (twice, the second time out of the cache) and write about 1:
// 17 MB, 4 us at 4.3 TB/s; below that a launch and a barrier are what one waits for, some 10 us.
#pragma once

#include "exec/kernels/device.cuh"
#include "exec/kernels/sparse_data.h"

namespace fusion::exec {

/// Sum over the blocks before this one, and over all; `sums` has an element per warp.
template <unsigned threads>
__device__ inline Count before_block(const unsigned long long* totals, Count* sums, Count& total) {
  Count before = 0, all = 0;
  for (unsigned b = threadIdx.x; b < gridDim.x; b += threads) {
    before += b < blockIdx.x ? totals[b] : 0;
    all += totals[b];
  }
  Count sum;
  block_exclusive_sum<threads>(before, sums, sum);
  block_exclusive_sum<threads>(all, sums, total);
  return sum;
}

struct PackKernel {
  static constexpr unsigned threads = 256;
  static constexpr unsigned blocks_per_processor = 2;
  static constexpr bool cooperative = true;
  struct Shared {
    Count sums[threads / 32];
  };

  PackCall call;

  __device__ void operator()(Shared& s) const {
    const Count count = *call.count;
    const Range own = own_range(count);
    fill(count);
    Count bytes = 0, total, size;
    for (Count i = own.begin + threadIdx.x; i < own.end; i += threads) bytes += gap(i) / 255 + 1;
    block_exclusive_sum<threads>(bytes, s.sums, total);
    if (threadIdx.x == 0) call.totals[blockIdx.x] = total;
    grid_sync();
    Count before = before_block<threads>(call.totals, s.sums, size);
    for (Count from = own.begin; from < own.end; from += threads) {
      const Count i = from + threadIdx.x;
      const Count length = i < own.end ? gap(i) / 255 + 1 : 0;
      const Count at = before + block_exclusive_sum<threads>(length, s.sums, total);
      if (i < own.end) call.bytes[at + length - 1] = static_cast<std::uint8_t>(gap(i) % 255);
      before += total;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) *call.size = size;
  }

 private:
  __device__ Count gap(Count i) const { return i == 0 ? call.index[0] : call.index[i] - call.index[i - 1] - 1; }

  /// Every byte that is not the last of its index is 255, so all are, to begin with. There are no more than `count`
  /// last ones and a 255th of the elements of others.
  __device__ void fill(Count count) const {
    const Count most = count + call.elements / 255;
    for (Count i = Count{blockIdx.x} * threads + threadIdx.x; i < most; i += Count{gridDim.x} * threads)
      call.bytes[i] = 255;
  }
};

struct UnpackKernel {
  static constexpr unsigned threads = 256;
  static constexpr unsigned blocks_per_processor = 2;
  static constexpr bool cooperative = true;
  struct Shared {
    Count sums[threads / 32];
  };

  UnpackCall call;

  __device__ void operator()(Shared& s) const {
    const Range own = own_range(call.size);
    Count steps = 0, ends = 0, step_total, end_total;
    for (Count i = own.begin + threadIdx.x; i < own.end; i += threads) {
      steps += step(i);
      ends += is_end(i);
    }
    block_exclusive_sum<threads>(steps, s.sums, step_total);
    block_exclusive_sum<threads>(ends, s.sums, end_total);
    if (threadIdx.x == 0) call.totals[blockIdx.x] = step_total;
    if (threadIdx.x == 0) call.totals[gridDim.x + blockIdx.x] = end_total;
    grid_sync();
    Count all_steps, all_ends;
    const Count first_step = before_block<threads>(call.totals, s.sums, all_steps);
    const Count first_end = before_block<threads>(call.totals + gridDim.x, s.sums, all_ends);
    const bool valid =
        all_ends == call.count && all_steps <= call.elements && (call.size == 0 || is_end(call.size - 1));
    if (valid) write(own, first_step, first_end, s);
    if (blockIdx.x == 0 && threadIdx.x == 0) *call.valid = valid;
  }

 private:
  __device__ bool is_end(Count i) const { return call.bytes[i] != 255; }
  __device__ Count step(Count i) const { return is_end(i) ? call.bytes[i] + Count{1} : 255; }

  __device__ void write(Range own, Count steps, Count ends, Shared& s) const {
    for (Count from = own.begin; from < own.end; from += threads) {
      const Count i = from + threadIdx.x;
      const bool inside = i < own.end;
      Count step_total, end_total;
      const Count here = inside ? step(i) : 0;
      const Count reached = steps + block_exclusive_sum<threads>(here, s.sums, step_total) + here;
      const Count place = ends + block_exclusive_sum<threads>(inside && is_end(i), s.sums, end_total);
      if (inside && is_end(i)) call.index[place] = reached - 1;
      steps += step_total;
      ends += end_total;
    }
  }
};

}  // namespace fusion::exec
