#include "tensor/core/allocator.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "tensor/core/error.h"
#include "tensor/core/memory/observer.h"

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

// The address sanitizer knows the ends of blocks that malloc made of the very size, and of those that nobody keeps.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kExact = true;
#else
constexpr bool kExact = false;
#endif

struct FreeBlock {
  FreeBlock* next;
};

int class_of(size_t n) {
  if (n <= 512) return n == 0 ? 0 : static_cast<int>((n - 1) / kAlign);
  const int log = 63 - __builtin_clzll(n - 1);  // 2^log < n <= 2^(log+1)
  const int step = static_cast<int>((n - 1) >> (log - 2)) & 3;
  return 8 + (log - 9) * 4 + step;
}
constexpr size_t size_of_class(int c) {
  if (c < 8) return (c + 1) * kAlign;
  const int log = (c - 8) / 4 + 9, step = (c - 8) % 4;
  return (size_t{1} << log) + ((step + 1) * (size_t{1} << (log - 2)));
}

constexpr auto kSizes = [] {
  std::array<size_t, kClasses> sizes{};
  for (int c = 0; c < kClasses; ++c) sizes[static_cast<size_t>(c)] = size_of_class(c);
  return sizes;
}();

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

// What one thread has taken and returned. Written by its thread alone, read by all.
struct Counters {
  std::atomic<int64_t> blocks[2], bytes[2], requested[2];  // allocated, freed
  int64_t told;                                            // of the bytes in use, what g_bytes knows
};
constexpr int64_t kTellAt = 256 << 10;

struct Sums {
  int64_t blocks[2] = {}, bytes[2] = {}, requested[2] = {};
  void add(const Counters& c) {
    for (int k : {0, 1}) {
      blocks[k] += c.blocks[k].load(std::memory_order_relaxed);
      bytes[k] += c.bytes[k].load(std::memory_order_relaxed);
      requested[k] += c.requested[k].load(std::memory_order_relaxed);
    }
  }
};
struct Totals {
  std::mutex mutex;
  std::vector<Counters*> threads;
  Sums ended;   // of threads that are no more
  Sums before;  // of all, at the last reset
  Sums all() const {
    Sums s = ended;
    for (const Counters* c : threads) s.add(*c);
    return s;
  }
};
// After a fork the child has one thread; the memory of the others, counters with it, goes.
void keep_own_thread_only();
Totals& totals() {
  static auto* t = [] {
    pthread_atfork([] { totals().mutex.lock(); }, [] { totals().mutex.unlock(); },
                   [] {
                     keep_own_thread_only();
                     totals().mutex.unlock();
                   });
    return new Totals;
  }();
  return *t;
}
std::atomic<int64_t> g_bytes{0}, g_peak{0}, g_retries{0}, g_failures{0};

void bump(std::atomic<int64_t>& counter, int64_t n) {
  counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

[[gnu::noinline]] void tell(int64_t change) {
  const int64_t now = g_bytes.fetch_add(change, std::memory_order_relaxed) + change;
  int64_t peak = g_peak.load(std::memory_order_relaxed);
  while (now > peak && !g_peak.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {}
}

struct ThreadCache {
  FreeBlock* lists[kThreadClasses];
  uint16_t counts[kThreadClasses];
  bool registered;
  bool dead;  // the thread is ending: nothing more is kept
  Counters counters;
};
thread_local constinit ThreadCache t_cache{};

void keep_own_thread_only() {
  Totals& sum = totals();
  std::erase_if(sum.threads, [&](Counters* c) {
    if (c == &t_cache.counters) return false;
    sum.ended.add(*c);
    return true;
  });
}

// The counts of an ending thread go to the totals.
void forget_thread() {
  Totals& sum = totals();
  std::lock_guard lock(sum.mutex);
  std::erase(sum.threads, &t_cache.counters);
  sum.ended.add(t_cache.counters);
  const Counters& c = t_cache.counters;
  tell(c.bytes[0].load(std::memory_order_relaxed) - c.bytes[1].load(std::memory_order_relaxed) - c.told);
}

struct Reaper {
  ~Reaper() {
    t_cache.dead = true;
    forget_thread();
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
  Totals& sum = totals();
  std::lock_guard lock(sum.mutex);
  sum.threads.push_back(&t_cache.counters);
}

// Counts a block that is taken (freed = 0) or returned (1).
inline void count(int freed, int c, size_t n) {
  ThreadCache& t = t_cache;
  const auto size = static_cast<int64_t>(kSizes[static_cast<size_t>(c)]);
  if (t.dead || !t.registered) [[unlikely]] {
    if (!t.dead) {
      register_thread();
    } else {  // after the thread's own counters have gone
      Totals& sum = totals();
      std::lock_guard lock(sum.mutex);
      ++sum.ended.blocks[freed];
      sum.ended.bytes[freed] += size;
      sum.ended.requested[freed] += static_cast<int64_t>(n);
      tell(freed ? -size : size);
      return;
    }
  }
  Counters& mine = t.counters;
  bump(mine.blocks[freed], 1);
  bump(mine.bytes[freed], size);
  bump(mine.requested[freed], static_cast<int64_t>(n));
  const int64_t untold =
      mine.bytes[0].load(std::memory_order_relaxed) - mine.bytes[1].load(std::memory_order_relaxed) - mine.told;
  if (untold >= kTellAt || untold <= -kTellAt) [[unlikely]] {
    mine.told += untold;
    tell(untold);
  }
}

}  // namespace

void empty_cpu_cache() {
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

namespace {

[[gnu::noinline]] void* allocate_slow(int c, size_t n) {
  const size_t size = kExact ? n : size_of_class(c);
  if (!kExact && c >= kThreadClasses) {
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
    g_retries.fetch_add(1, std::memory_order_relaxed);
    empty_cpu_cache();
    p = system_allocate(size);
  }
  if (!p) g_failures.fetch_add(1, std::memory_order_relaxed);
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

void* take(int c, size_t n) {
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

void give_back(int c, void* p) {
  if (kExact) return std::free(p);
  if (c >= kThreadClasses) return give_back_shared(c, p);
  ThreadCache& t = t_cache;
  if (!t.dead && t.counts[c] < kThreadKeep && t.counts[c] * size_of_class(c) < kThreadKeepBytes) [[likely]] {
    auto* b = static_cast<FreeBlock*>(p);
    b->next = t.lists[c];
    t.lists[c] = b;
    ++t.counts[c];
    return;
  }
  std::free(p);
}

}  // namespace

constinit std::atomic<const MemoryObserver*> g_memory_observer{nullptr};

void* cpu_allocate(size_t n) {
  if (n > (size_t{1} << 46)) {
    g_failures.fetch_add(1, std::memory_order_relaxed);
    throw OutOfMemoryError(str_cat("not enough memory: you tried to allocate ", n, " bytes."));
  }
  const int c = class_of(n);
  void* p = take(c, n);
  count(0, c, n);
  if (const MemoryObserver* o = g_memory_observer.load(std::memory_order_acquire)) [[unlikely]]
    o->allocated(p, n);
  return p;
}

void cpu_free(void* p, size_t n) noexcept {
  if (const MemoryObserver* o = g_memory_observer.load(std::memory_order_acquire)) [[unlikely]]
    o->freed(p, n);
  const int c = class_of(n);
  count(1, c, n);
  give_back(c, p);
}

CpuMemoryStats cpu_memory_stats() {
  Totals& sum = totals();
  std::lock_guard lock(sum.mutex);
  const Sums all = sum.all();
  CpuMemoryStats s;
  s.blocks = all.blocks[0] - all.blocks[1];
  s.bytes = all.bytes[0] - all.bytes[1];
  s.requested = all.requested[0] - all.requested[1];
  s.blocks_allocated = all.blocks[0] - sum.before.blocks[0];
  s.blocks_freed = all.blocks[1] - sum.before.blocks[1];
  s.bytes_allocated = all.bytes[0] - sum.before.bytes[0];
  s.bytes_freed = all.bytes[1] - sum.before.bytes[1];
  s.requested_allocated = all.requested[0] - sum.before.requested[0];
  s.requested_freed = all.requested[1] - sum.before.requested[1];
  s.bytes_peak = std::max(g_peak.load(std::memory_order_relaxed), s.bytes);
  s.cached = g_cached.load(std::memory_order_relaxed);
  s.retries = g_retries.load(std::memory_order_relaxed);
  s.failures = g_failures.load(std::memory_order_relaxed);
  return s;
}

void reset_peak_cpu_memory() { g_peak.store(cpu_memory_stats().bytes, std::memory_order_relaxed); }

void reset_accumulated_cpu_memory() {
  Totals& sum = totals();
  std::lock_guard lock(sum.mutex);
  sum.before = sum.all();
}

}  // namespace tessera
