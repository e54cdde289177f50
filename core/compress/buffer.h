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

inline constexpr std::size_t huge_page = std::size_t{2} << 20;

/// Where an array of so many bytes should begin: on a cache line, or a huge page where it fills some.
constexpr std::size_t alignment_of(std::size_t bytes) { return bytes >= huge_page ? huge_page : std::size_t{64}; }

/// A hint; refusal costs only time.
inline void ask_for_huge_pages(void* memory, std::size_t bytes) {
  if (alignment_of(bytes) == huge_page) ::madvise(memory, bytes, MADV_HUGEPAGE);
}

/// A growing array of trivial values. Movable, not copyable.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  /// At least `size` elements; their contents are lost where the buffer had to grow.
  void reserve(std::size_t size) {
    if (size <= size_) return;
    const std::size_t wanted = size * sizeof(T);
    const std::size_t alignment = alignment_of(wanted);
    const std::size_t bytes = (wanted + alignment - 1) / alignment * alignment;
    memory_.reset();
    size_ = 0;
    memory_.reset(static_cast<T*>(std::aligned_alloc(alignment, bytes)));
    if (!memory_) throw std::bad_alloc();
    ask_for_huge_pages(memory_.get(), bytes);
    size_ = size;
  }
  T* data() { return memory_.get(); }
  const T* data() const { return memory_.get(); }
  std::size_t size() const { return size_; }
  std::span<T> first(std::size_t count) { return {memory_.get(), count}; }
  std::span<const T> first(std::size_t count) const { return {memory_.get(), count}; }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T[], Free> memory_;
  std::size_t size_ = 0;
};

/// For vectors that vector code streams to past the cache: that wants whole cache lines, and huge pages.
template <class T>
struct CacheAligned {
  using value_type = T;
  CacheAligned() = default;
  template <class U>
  explicit CacheAligned(const CacheAligned<U>&) {}
  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    void* memory = ::operator new (bytes, std::align_val_t{alignment_of(bytes)});
    ask_for_huge_pages(memory, bytes);
    return static_cast<T*>(memory);
  }
  void deallocate(T* p, std::size_t count) { ::operator delete (p, std::align_val_t{alignment_of(count * sizeof(T))}); }
  bool operator==(const CacheAligned&) const = default;
};
using AlignedFloats = std::vector<float, CacheAligned<float>>;

}  // namespace fusion::compress
