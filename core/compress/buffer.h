// Scratch memory that is touched once and kept: 64-byte aligned, not initialised, only ever grows. Large buffers ask
// for huge pages: the first touch of 268 MB costs about a second with 4 KB pages and 20 ms with 2 MB ones.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

namespace fusion::compress {

/// A growing array of trivial values. Movable, not copyable.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  /// At least `size` elements; their contents are lost where the buffer had to grow.
  void reserve(std::size_t size) {
    if (size <= size_) return;
    const std::size_t wanted = size * sizeof(T);
    const std::size_t alignment = wanted >= huge_page ? huge_page : std::size_t{64};
    const std::size_t bytes = (wanted + alignment - 1) / alignment * alignment;
    memory_.reset();
    size_ = 0;
    memory_.reset(static_cast<T*>(std::aligned_alloc(alignment, bytes)));
    if (!memory_) throw std::bad_alloc();
    if (alignment == huge_page) ::madvise(memory_.get(), bytes, MADV_HUGEPAGE);  // a hint; refusal costs only time
    size_ = size;
  }
  T* data() { return memory_.get(); }
  const T* data() const { return memory_.get(); }
  std::size_t size() const { return size_; }
  std::span<T> first(std::size_t count) { return {memory_.get(), count}; }
  std::span<const T> first(std::size_t count) const { return {memory_.get(), count}; }

 private:
  static constexpr std::size_t huge_page = std::size_t{2} << 20;
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T[], Free> memory_;
  std::size_t size_ = 0;
};

/// For vectors that vector code streams to past the cache: that wants whole cache lines.
template <class T>
struct CacheAligned {
  using value_type = T;
  CacheAligned() = default;
  template <class U>
  explicit CacheAligned(const CacheAligned<U>&) {}
  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), alignment)); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, alignment); }
  bool operator==(const CacheAligned&) const = default;
  static constexpr std::align_val_t alignment{64};
};
using AlignedFloats = std::vector<float, CacheAligned<float>>;

}  // namespace fusion::compress
