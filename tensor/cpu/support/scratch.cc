#include "tensor/cpu/support/scratch.h"

#include <sys/mman.h>

#include <cstdlib>

#include "tensor/core/error.h"

namespace tessera::cpu::internal {
namespace {

[[noreturn]] void raise_out_of_memory(size_t bytes) {
  throw OutOfMemoryError(str_cat("not enough memory: a kernel tried to allocate ", bytes, " bytes of scratch space"));
}

constexpr size_t kAlign = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr int kKept = 8;                          // of a bank
constexpr size_t kBanks[] = {64 << 10, 1 << 20};  // where the second and the third begin
constexpr size_t kMaxKept = size_t{32} << 20;     // a larger block goes back to the system at once

// Free blocks of one thread, of sizes like each other: small requests do not use up large blocks.
struct Bank {
  void* data[kKept] = {};
  size_t capacity[kKept] = {};

  // The smallest kept block that fits.
  int find(size_t bytes) const {
    int best = -1;
    for (int i = 0; i < kKept; ++i)
      if (data[i] && capacity[i] >= bytes && (best < 0 || capacity[i] < capacity[best])) best = i;
    return best;
  }
  // A place for a block to keep: an empty one, or that of a smaller block.
  int place(size_t bytes) const {
    int smallest = 0;
    for (int i = 0; i < kKept; ++i) {
      if (!data[i]) return i;
      if (capacity[i] < capacity[smallest]) smallest = i;
    }
    return capacity[smallest] < bytes ? smallest : -1;
  }
};
struct Cache {
  Bank banks[3];

  ~Cache() {
    for (const Bank& bank : banks)
      for (void* p : bank.data) std::free(p);
  }
};
// The thread's cache, made when it is first asked for. It is not thread-local itself: a process has little room for the
// thread-locals of libraries that are loaded later, and some of them need it.
struct OwnCache {
  Cache* cache = nullptr;
  bool alive = true;  // false while the thread's locals are destroyed

  ~OwnCache() {
    alive = false;
    delete cache;
  }
};
thread_local OwnCache t_own;

// Where the thread keeps blocks of such a size; null while it ends.
Bank* bank_of(size_t bytes) {
  if (!t_own.alive) return nullptr;
  if (!t_own.cache) t_own.cache = new Cache;
  return &t_own.cache->banks[(bytes > kBanks[0]) + (bytes > kBanks[1])];
}

void* allocate(size_t bytes) {
  const size_t align = bytes >= kHugePage ? kHugePage : kAlign;
  void* p = std::aligned_alloc(align, bytes);
  if (!p) raise_out_of_memory(bytes);
  if (align == kHugePage) madvise(p, bytes, MADV_HUGEPAGE);
  return p;
}

}  // namespace

Scratch::Scratch(size_t bytes) {
  if (bytes > SIZE_MAX / 4) raise_out_of_memory(bytes);
  Bank* const bank = bank_of(bytes);
  if (const int kept = bank ? bank->find(bytes) : -1; kept >= 0) {
    data_ = bank->data[kept];
    capacity_ = bank->capacity[kept];
    bank->data[kept] = nullptr;
    return;
  }
  // Few distinct sizes, so that kept blocks fit later requests: powers of two, then whole huge pages.
  size_t size = 4096;
  while (size < bytes && size < kHugePage) size *= 2;
  if (size < bytes) size = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  data_ = allocate(size);
  capacity_ = size;
}

Scratch::~Scratch() {
  Bank* const bank = capacity_ <= kMaxKept ? bank_of(capacity_) : nullptr;
  const int place = bank ? bank->place(capacity_) : -1;
  if (place < 0) {
    std::free(data_);
    return;
  }
  std::free(bank->data[place]);
  bank->data[place] = data_;
  bank->capacity[place] = capacity_;
}

}  // namespace tessera::cpu::internal
