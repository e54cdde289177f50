#include "tests/support/cuda_emulator.h"

#include <boost/context/fiber.hpp>
#include <exception>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fiber_stack.h"

thread_local EmulatedIndex threadIdx, blockIdx, gridDim;

namespace fusion::emulator {
namespace {

constexpr std::size_t stack_bytes = std::size_t{256} << 10;  // touched only as far as used

struct Lane;

/// Who waits for the others.
struct Barrier {
  unsigned members = 0;
  std::vector<Lane*> waiting;
};

struct Warp {
  Barrier barrier;
  std::array<std::array<std::uint64_t, 32>, 2> values{};  ///< by turns: a quick lane may be one operation ahead
  const char* operation = nullptr;
};

struct Block {
  unsigned index = 0, unfinished = 0;
  Barrier barrier;
  std::vector<Warp> warps;
  std::unique_ptr<std::max_align_t[]> shared;
  std::vector<Lane> lanes;
};

struct Lane {
  Block* block = nullptr;
  unsigned thread = 0;
  unsigned operations = 0;  ///< of its warp, so far
  boost::context::fiber fiber, scheduler;
  StackRange stack;
  void* kept = nullptr;  ///< what the address sanitizer keeps of it
};

/// Ends the threads that are left when one has failed.
struct Stopped {};

/// One launch: which threads can run, and which of them is next.
class Scheduler {
 public:
  Scheduler(const Grid& grid, std::uint64_t seed, const std::function<void(void*)>& body)
      : grid_(grid), seed_(seed), body_(body), random_(seed), stacks_(pool()) {
    grid_barrier.members = grid.blocks * grid.threads;
  }

  ~Scheduler() {
    stopping_ = true;
    for (const auto& block : blocks_)
      for (Lane& lane : block->lanes)
        if (lane.fiber) change_to(lane);
  }

  void run() {
    std::vector<unsigned> order(grid_.blocks);
    for (unsigned b = 0; b < grid_.blocks; ++b) order[b] = seed_ == 1 ? grid_.blocks - 1 - b : b;
    if (seed_ > 1) std::shuffle(order.begin(), order.end(), random_);
    const std::size_t resident = grid_.cooperative ? grid_.blocks : 1 + random_() % 4;
    std::size_t next = 0;
    while (next < order.size() || unfinished_ > 0) {
      while (next < order.size() && unfinished_ < resident) start(order[next++]);
      if (ready_.empty()) throw std::logic_error("threads wait at a barrier that others never reach");
      resume(take());
    }
  }

  void wait(Barrier& barrier) {
    barrier.waiting.push_back(current);
    if (barrier.waiting.size() == barrier.members) {
      ready_.insert(ready_.end(), barrier.waiting.begin(), barrier.waiting.end());
      barrier.waiting.clear();
    }
    leave();
  }

  void change_places() {
    if (seed_ <= 1 || random_() % 4 != 0) return;
    ready_.push_back(current);
    leave();
  }

  Barrier grid_barrier;
  static thread_local Scheduler* running;
  static thread_local Lane* current;

 private:
  static boost::context::pooled_fixedsize_stack pool() {  // from launch to launch
    static thread_local boost::context::pooled_fixedsize_stack stacks(stack_bytes);
    return stacks;
  }

  void start(unsigned index) {
    auto block = std::make_unique<Block>();
    block->index = index;
    block->unfinished = block->barrier.members = grid_.threads;
    block->warps.resize(grid_.threads / 32);
    for (Warp& warp : block->warps) warp.barrier.members = 32;
    const std::size_t words = grid_.shared_bytes / sizeof(std::max_align_t) + 1;
    block->shared = std::make_unique_for_overwrite<std::max_align_t[]>(words);
    std::memset(block->shared.get(), 0xa5, words * sizeof(std::max_align_t));
    block->lanes.resize(grid_.threads);
    for (unsigned t = 0; t < grid_.threads; ++t) {
      Lane& lane = block->lanes[t];
      lane.block = block.get();
      lane.thread = t;
      make_fiber(lane);
      ready_.push_back(&lane);
    }
    ++unfinished_;
    blocks_.push_back(std::move(block));
  }

  void make_fiber(Lane& lane) {
    const boost::context::stack_context stack = stacks_.allocate();
    lane.stack = range_of(stack);
    forget_marks(lane.stack);
    lane.fiber = boost::context::fiber(std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack),
                                       stacks_, [this, &lane](boost::context::fiber&& from) {
                                         scheduler_stack_ = finish_switch(nullptr);
                                         lane.scheduler = std::move(from);
                                         work(lane);
                                         start_switch(nullptr, scheduler_stack_);
                                         return std::move(lane.scheduler);
                                       });
  }

  void work(const Lane& lane) {
    try {
      if (!stopping_) body_(lane.block->shared.get());
    } catch (const Stopped&) {
      return;
    } catch (...) {
      failure_ = std::current_exception();
    }
    if (--lane.block->unfinished == 0) --unfinished_;
  }

  Lane* take() {
    if (seed_ == 0) {  // in turn
      Lane* const lane = ready_[head_++];
      if (head_ == ready_.size()) ready_.clear(), head_ = 0;
      return lane;
    }
    std::swap(ready_[seed_ == 1 ? ready_.size() - 1 : drawn()], ready_.back());
    Lane* const lane = ready_.back();
    ready_.pop_back();
    return lane;
  }

  /// Of several by chance, the one of highest rank: so whole blocks or warps starve while others run far ahead. Without
  /// ranks all would keep in step.
  std::size_t drawn() {
    std::size_t best = random_() % ready_.size();
    if (seed_ % 3 == 0) return best;
    for (int tries = 1; tries < 8; ++tries) {
      const std::size_t other = random_() % ready_.size();
      if (rank(*ready_[other]) > rank(*ready_[best])) best = other;
    }
    return best;
  }

  std::uint64_t rank(const Lane& lane) const {
    const std::uint64_t warp = seed_ % 3 == 1 ? 0 : lane.thread / 32 + 1;
    return (seed_ + lane.block->index * 1000 + warp) * 0x9e3779b97f4a7c15u;
  }

  void resume(Lane* lane) {
    current = lane;
    threadIdx.x = lane->thread;
    blockIdx.x = lane->block->index;
    gridDim.x = grid_.blocks;
    change_to(*lane);
    if (failure_) std::rethrow_exception(failure_);
    if (lane->block->unfinished == 0) std::erase_if(blocks_, [&](const auto& b) { return b->unfinished == 0; });
  }

  void change_to(Lane& lane) {
    void* kept = nullptr;
    start_switch(&kept, lane.stack);
    lane.fiber = std::move(lane.fiber).resume();
    finish_switch(kept);
  }

  void leave() {
    Lane& lane = *current;
    start_switch(&lane.kept, scheduler_stack_);
    lane.scheduler = std::move(lane.scheduler).resume();
    finish_switch(lane.kept);
    if (stopping_) throw Stopped();
  }

  const Grid& grid_;
  std::uint64_t seed_;
  const std::function<void(void*)>& body_;
  std::mt19937_64 random_;
  boost::context::pooled_fixedsize_stack stacks_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Lane*> ready_;
  std::size_t head_ = 0;        ///< of ready_, with seed 0
  std::size_t unfinished_ = 0;  ///< blocks
  std::exception_ptr failure_;
  StackRange scheduler_stack_;
  bool stopping_ = false;
};

thread_local Scheduler* Scheduler::running = nullptr;
thread_local Lane* Scheduler::current = nullptr;

}  // namespace

void run(const Grid& grid, std::uint64_t seed, const std::function<void(void*)>& body) {
  if (grid.threads == 0 || grid.threads % 32 != 0) throw std::logic_error("a block is made of whole warps");
  Scheduler scheduler(grid, seed, body);
  Scheduler::running = &scheduler;
  scheduler.run();
  Scheduler::running = nullptr;
}

void block_barrier() { Scheduler::running->wait(Scheduler::current->block->barrier); }
void grid_barrier() { Scheduler::running->wait(Scheduler::running->grid_barrier); }
void change_places() { Scheduler::running->change_places(); }

const std::array<std::uint64_t, 32>& exchange(std::uint64_t value, const char* operation) {
  Lane& lane = *Scheduler::current;
  Warp& warp = lane.block->warps[lane.thread / 32];
  if (warp.barrier.waiting.empty()) warp.operation = operation;
  if (std::strcmp(warp.operation, operation) != 0)
    throw std::logic_error(std::string("lanes of one warp meet at ") + warp.operation + " and at " + operation);
  auto& values = warp.values[lane.operations++ % 2];
  values[lane.thread % 32] = value;
  Scheduler::running->wait(warp.barrier);
  return values;
}

}  // namespace fusion::emulator
