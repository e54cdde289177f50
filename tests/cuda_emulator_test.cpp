// The emulator itself: it runs kernels as a GPU would, and it shows the faults it exists to show.
#include "tests/support/cuda_emulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace fusion::emulator {
namespace {

struct Kernel {  // what most kernels below are
  static constexpr unsigned threads = 64;
  static constexpr bool cooperative = false;
  struct Shared {
    unsigned value[64];
  };
};

struct Reverse : Kernel {
  unsigned* out;
  bool barrier;
  void operator()(Shared& s) const {
    s.value[threadIdx.x] = threadIdx.x + 100 * blockIdx.x;
    if (barrier) __syncthreads();
    out[blockIdx.x * threads + threadIdx.x] = s.value[threads - 1 - threadIdx.x];
  }
};

std::vector<unsigned> reversed(bool barrier, std::uint64_t seed) {
  std::vector<unsigned> out(5 * 64);
  Reverse kernel;
  kernel.out = out.data();
  kernel.barrier = barrier;
  launch(kernel, 5, seed);
  return out;
}

TEST(CudaEmulator, ThreadsOfABlockMeetAtABarrier) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const auto out = reversed(true, seed);
    for (unsigned i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], 63 - i % 64 + 100 * (i / 64)) << "seed " << seed;
  }
}

TEST(CudaEmulator, AMissingBarrierShows) {
  const auto want = reversed(true, 0);
  for (std::uint64_t seed = 0; seed < 10; ++seed) EXPECT_NE(reversed(false, seed), want) << "seed " << seed;
}

struct Sum : Kernel {
  static constexpr bool cooperative = true;
  unsigned* total;
  unsigned* seen;
  bool barrier;
  void operator()(Shared&) const {
    unsigned sum = threadIdx.x;  // 0 + … + 31 = 496 in the first warp, 32 + … + 63 = 1,520 in the second
    for (unsigned bit = 1; bit < 32; bit *= 2) sum += __shfl_xor_sync(~0u, sum, bit);
    if (threadIdx.x % 32 == 0) atomicAdd(total, sum);
    if (barrier) grid_sync();
    seen[blockIdx.x * threads + threadIdx.x] = *total;
  }
};

std::set<unsigned> sums_seen(bool barrier, std::uint64_t seed) {
  unsigned total = 0;
  std::vector<unsigned> seen(7 * 64);
  Sum kernel;
  kernel.total = &total;
  kernel.seen = seen.data();
  kernel.barrier = barrier;
  launch(kernel, 7, seed);
  return {seen.begin(), seen.end()};
}

TEST(CudaEmulator, BlocksMeetAtABarrierOfTheGrid) {
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    EXPECT_THAT(sums_seen(true, seed), testing::ElementsAre(7 * (496 + 1520))) << "seed " << seed;
}

TEST(CudaEmulator, AMissingBarrierOfTheGridShows) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) EXPECT_GT(sums_seen(false, seed).size(), 1u) << "seed " << seed;
}

struct Votes : Kernel {
  unsigned* out;
  void operator()(Shared&) const {
    const unsigned lane = threadIdx.x % 32;
    const unsigned odd = __ballot_sync(~0u, lane % 2 == 1);
    const unsigned left = __shfl_up_sync(~0u, lane, 1), fifth = __shfl_sync(~0u, lane * lane, 5);
    out[threadIdx.x] = odd == 0xaaaaaaaau && left == (lane == 0 ? 0 : lane - 1) && fifth == 25 &&
                       __any_sync(~0u, lane == 31) && !__any_sync(~0u, false);
  }
};

TEST(CudaEmulator, LanesVoteAndShuffle) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    std::vector<unsigned> out(64);
    Votes kernel;
    kernel.out = out.data();
    launch(kernel, 3, seed);
    EXPECT_THAT(out, testing::Each(1u));
  }
}

TEST(CudaEmulator, BlocksRunInManyOrders) {
  struct Order : Kernel {
    std::vector<unsigned>* order;
    void operator()(Shared&) const {
      if (threadIdx.x == 0) order->push_back(blockIdx.x);
    }
  };
  std::set<std::vector<unsigned>> orders;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<unsigned> order;
    Order kernel;
    kernel.order = &order;
    launch(kernel, 6, seed);
    EXPECT_THAT(order, testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5));
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 10u);
}

struct Late : Kernel {
  static constexpr bool cooperative = true;
  unsigned *done, *late;
  void operator()(Shared&) const {
    if (*done != 0) *late = 1;
    __syncthreads();
    __syncthreads();
    if (threadIdx.x == 0) *done = 1;
  }
};

TEST(CudaEmulator, ABlockMayStartAfterAnotherHasGoneFar) {
  unsigned seen = 0;
  for (std::uint64_t seed = 2; seed < 32; ++seed) {
    unsigned done = 0, late = 0;
    Late kernel;
    kernel.done = &done;
    kernel.late = &late;
    launch(kernel, 3, seed);
    seen += late;
  }
  EXPECT_GE(seen, 5u);
}

template <class Body>
std::string fault_of(const Body& kernel, std::uint64_t seed) {
  try {
    launch(kernel, 2, seed);
  } catch (const std::logic_error& fault) {
    return fault.what();
  }
  return "none";
}

TEST(CudaEmulator, ABarrierThatSomeNeverReachIsAFault) {
  struct Early : Kernel {
    void operator()(Shared&) const {
      if (threadIdx.x != 7) __syncthreads();
    }
  };
  struct HalfVote : Kernel {
    void operator()(Shared&) const {
      if (threadIdx.x % 32 < 16) __ballot_sync(~0u, true);
    }
  };
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    EXPECT_THAT(fault_of(Early{}, seed), testing::HasSubstr("never reach"));
    EXPECT_THAT(fault_of(HalfVote{}, seed), testing::HasSubstr("never reach"));
  }
}

TEST(CudaEmulator, LanesAtDifferentOperationsAreAFault) {
  struct Diverged : Kernel {
    void operator()(Shared&) const {
      if (threadIdx.x % 2 == 0)
        __ballot_sync(~0u, true);
      else
        __shfl_sync(~0u, 1u, 0);
    }
  };
  for (std::uint64_t seed = 0; seed < 5; ++seed)
    EXPECT_THAT(fault_of(Diverged{}, seed), testing::HasSubstr("lanes of one warp meet at"));
}

TEST(CudaEmulator, SharedMemoryStartsAsGarbage) {
  struct Unset : Kernel {
    unsigned* out;
    void operator()(Shared& s) const { out[threadIdx.x] = s.value[threadIdx.x]; }
  };
  std::vector<unsigned> out(64);
  Unset kernel;
  kernel.out = out.data();
  launch(kernel, 1, 0);
  EXPECT_THAT(out, testing::Each(0xa5a5a5a5u));
}

}  // namespace
}  // namespace fusion::emulator
