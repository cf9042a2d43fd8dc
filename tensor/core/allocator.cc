#include "tensor/core/allocator.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "tensor/core/error.h"

namespace tessera {
namespace {

// Size classes: multiples of 64 up to 512, then four steps per power of two. Blocks of up to kThreadMax bytes are kept
// by the thread, larger ones in shared lists.
constexpr size_t kAlign = 64;
constexpr size_t kThreadMax = 64 << 10;
constexpr size_t kHugePage = 2 << 20;
constexpr int kThreadClasses = 40;
constexpr int kClasses = 200;
constexpr int kThreadKeep = 64;  // blocks of a class that one thread keeps
constexpr size_t kThreadKeepBytes = 1 << 20;

struct FreeBlock {
  FreeBlock* next;
};

int class_of(size_t n) {
  if (n <= 512) return n == 0 ? 0 : static_cast<int>((n - 1) / kAlign);
  const int log = 63 - __builtin_clzll(n - 1);  // 2^log < n <= 2^(log+1)
  const int step = static_cast<int>((n - 1) >> (log - 2)) & 3;
  return 8 + (log - 9) * 4 + step;
}
size_t size_of_class(int c) {
  if (c < 8) return (c + 1) * kAlign;
  const int log = (c - 8) / 4 + 9, step = (c - 8) % 4;
  return (size_t{1} << log) + ((step + 1) * (size_t{1} << (log - 2)));
}

std::atomic<int64_t> g_cached{0};  // bytes in the shared lists

void* system_allocate(size_t size) {
  void* p = nullptr;
  if (size >= kHugePage) {
    if (posix_memalign(&p, kHugePage, size) != 0) return nullptr;
    madvise(p, size, MADV_HUGEPAGE);
    return p;
  }
  return posix_memalign(&p, kAlign, size) == 0 ? p : nullptr;
}

struct Shared {
  std::mutex mutex;
  FreeBlock* lists[kClasses] = {};
  size_t limit;
  Shared() {
    const char* mb = std::getenv("TESSERA_CPU_CACHE_MB");
    limit = mb ? std::strtoull(mb, nullptr, 10) << 20 : size_t{1} << 30;
  }
};
Shared& shared() {
  static Shared* s = new Shared;
  return *s;
}  // never destroyed: tensors may outlive static destructors

struct ThreadCache {
  FreeBlock* lists[kThreadClasses];
  uint16_t counts[kThreadClasses];
  bool registered;
  bool dead;  // the thread is ending: nothing more is kept
};
thread_local constinit ThreadCache t_cache{};

struct Reaper {
  ~Reaper() {
    t_cache.dead = true;
    for (int c = 0; c < kThreadClasses; ++c) {
      while (FreeBlock* b = t_cache.lists[c]) {
        t_cache.lists[c] = b->next;
        std::free(b);
      }
    }
  }
};
[[gnu::noinline]] void register_thread() {
  thread_local Reaper reaper;
  (void)reaper;
  t_cache.registered = true;
}

// Gives what is cached for this thread and in the shared lists back to the system.
void empty_cache() {
  ThreadCache& t = t_cache;
  for (int c = 0; c < kThreadClasses; ++c) {
    while (FreeBlock* b = t.lists[c]) {
      t.lists[c] = b->next;
      std::free(b);
    }
    t.counts[c] = 0;
  }
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  for (int c = 0; c < kClasses; ++c) {
    while (FreeBlock* b = s.lists[c]) {
      s.lists[c] = b->next;
      g_cached.fetch_sub(static_cast<int64_t>(size_of_class(c)), std::memory_order_relaxed);
      std::free(b);
    }
  }
}

[[gnu::noinline]] void* allocate_slow(int c, size_t n) {
  const size_t size = size_of_class(c);
  if (c >= kThreadClasses) {
    Shared& s = shared();
    std::lock_guard lock(s.mutex);
    if (FreeBlock* b = s.lists[c]) {
      s.lists[c] = b->next;
      g_cached.fetch_sub(static_cast<int64_t>(size), std::memory_order_relaxed);
      return b;
    }
  }
  void* p = system_allocate(size);
  if (!p) {
    empty_cache();
    p = system_allocate(size);
  }
  if (!p) throw OutOfMemoryError(str_cat("not enough memory: you tried to allocate ", n, " bytes."));
  return p;
}

void give_back_shared(int c, void* p) {
  const size_t size = size_of_class(c);
  Shared& s = shared();
  if (static_cast<size_t>(g_cached.load(std::memory_order_relaxed)) + size > s.limit) {
    std::free(p);
    return;
  }
  std::lock_guard lock(s.mutex);
  auto* b = static_cast<FreeBlock*>(p);
  b->next = s.lists[c];
  s.lists[c] = b;
  g_cached.fetch_add(static_cast<int64_t>(size), std::memory_order_relaxed);
}

}  // namespace

void* cpu_allocate(size_t n) {
  if (n > (size_t{1} << 46)) throw OutOfMemoryError(str_cat("not enough memory: you tried to allocate ", n, " bytes."));
  const int c = class_of(n);
  if (c < kThreadClasses) {
    ThreadCache& t = t_cache;
    if (FreeBlock* b = t.lists[c]) [[likely]] {
      t.lists[c] = b->next;
      --t.counts[c];
      return b;
    }
  }
  return allocate_slow(c, n);
}

void cpu_free(void* p, size_t n) noexcept {
  const int c = class_of(n);
  if (c < kThreadClasses) {
    ThreadCache& t = t_cache;
    if (!t.registered && !t.dead) [[unlikely]]
      register_thread();
    if (!t.dead && t.counts[c] < kThreadKeep && t.counts[c] * size_of_class(c) < kThreadKeepBytes) [[likely]] {
      auto* b = static_cast<FreeBlock*>(p);
      b->next = t.lists[c];
      t.lists[c] = b;
      ++t.counts[c];
      return;
    }
    std::free(p);
    return;
  }
  give_back_shared(c, p);
}

}  // namespace tessera
