// Races and reads of shared memory that nobody wrote, whatever the order in which threads are run.
//
// With --config=races the twins of the kernels are compiled with -fsanitize=thread, whose calls at reads and writes are
// answered here instead of by the sanitizer's own library. Of every byte of device and shared memory that a kernel
// touches the last writer is known and two readers, each with its thread, the number of barriers that its block and its
// warp had passed, and whether it was an atomic function. Two accesses, one of them a write, must be ordered by a
// barrier, be of one thread, or both be atomic.
#if TESSERA_EMULATED_RACES

#include <cxxabi.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <unordered_set>
#include <vector>

#include "tensor/cuda/emulation/blocks.h"
#include "tensor/cuda/emulation/device.h"
#include "tensor/cuda/emulation/memory.h"
#include "tensor/cuda/emulation/mma.h"

namespace tessera::cuda::emulation {

namespace {

bool is_atomic = false;  // an atomic function is under way

struct Access {
  int thread = -1;  // of the block; -1: none
  uint32_t block = 0, block_epoch = 0, warp_epoch = 0;
  bool atomic = false;
};
// A byte. Of shared memory only what its block did counts, of all memory what this launch did.
struct Cell {
  uintptr_t address = 0;  // 0: empty
  uint32_t launch = 0, block = 0;
  Access writer, readers[2];
};

class Table {
 public:
  Cell& at(uintptr_t address) {
    if (2 * (used_ + 1) > cells_.size()) grow();
    Cell& c = place(cells_, address);
    if (c.address == 0) {
      ++used_;
      c.address = address;
    }
    return c;
  }
  void clear() {
    cells_.assign(1 << 12, Cell{});
    used_ = 0;
  }

 private:
  static Cell& place(std::vector<Cell>& cells, uintptr_t address) {
    const size_t mask = cells.size() - 1;
    size_t i = (address * 0x9E3779B97F4A7C15u) >> 20 & mask;
    while (cells[i].address != 0 && cells[i].address != address) i = (i + 1) & mask;
    return cells[i];
  }
  void grow() {
    std::vector<Cell> larger(cells_.size() * 2);
    for (const Cell& c : cells_)
      if (c.address != 0) place(larger, c.address) = c;
    cells_.swap(larger);
  }
  std::vector<Cell> cells_ = std::vector<Cell>(1 << 12);
  size_t used_ = 0;
};

Table& table() {
  static Table& t = *new Table;
  return t;
}
uint32_t launch_of_table = 0;
// Bytes of static shared memory: those of this program's variables that kernels have written.
std::unordered_set<uintptr_t>& static_shared() {
  static auto& s = *new std::unordered_set<uintptr_t>;
  return s;
}

struct Segment {
  uintptr_t begin, end;
};
// What stands for a warp's registers and copies under way (mma.h).
bool is_of_the_emulation(uintptr_t p) {
  const auto in = [p](const auto& array) {
    return p >= reinterpret_cast<uintptr_t>(&array) && p < reinterpret_cast<uintptr_t>(&array + 1);
  };
  return in(fragments) || in(rows_of_matrices) || in(turns) || in(pending_copies);
}
bool is_variable(uintptr_t p) {
  if (is_of_the_emulation(p)) return false;
  static const std::vector<Segment>& segments = [] {
    auto& all = *new std::vector<Segment>;
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* to) {
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            const auto& h = info->dlpi_phdr[i];
            if (h.p_type == PT_LOAD && h.p_flags & PF_W)
              static_cast<std::vector<Segment>*>(to)->push_back(
                  {info->dlpi_addr + h.p_vaddr, info->dlpi_addr + h.p_vaddr + h.p_memsz});
          }
          return 0;
        },
        &all);
    return std::ref(all);
  }();
  for (const Segment& s : segments)
    if (p >= s.begin && p < s.end) return true;
  return false;
}

enum class Kind { kOther, kDevice, kDynamicShared, kStaticShared };
Kind kind_of(uintptr_t p) {
  const uintptr_t shared = reinterpret_cast<uintptr_t>(position.shared);
  if (p >= shared && p < shared + position.shared_bytes) return Kind::kDynamicShared;
  if (device_of(reinterpret_cast<const void*>(p)) >= 0) return Kind::kDevice;
  return is_variable(p) ? Kind::kStaticShared : Kind::kOther;
}

[[noreturn]] void report(const char* what, uintptr_t p, Kind kind, const Access& other) {
  int status = 0;
  char* const name = abi::__cxa_demangle(position.kernel, nullptr, nullptr, &status);
  const char* const where = kind == Kind::kDevice ? "device memory" : "shared memory";
  char text[2048];
  std::snprintf(text, sizeof text,
                "%s at %#zx, %s; the other one: block %u, thread %d, after %u barriers%s. Kernel: %.1500s", what,
                static_cast<size_t>(p), where, other.block, other.thread, other.block_epoch,
                other.atomic ? ", atomic" : "", name ? name : position.kernel);
  fail(text);
}

bool is_ordered(const Access& before, const Access& now) {
  if (before.thread < 0 || (before.atomic && now.atomic)) return true;
  if (before.block != now.block) return false;
  if (before.thread == now.thread || before.block_epoch < now.block_epoch) return true;
  return before.thread / 32 == now.thread / 32 && before.warp_epoch < now.warp_epoch;
}

void access_byte(uintptr_t p, Kind kind, const Access& now, bool write) {
  const bool shared = kind != Kind::kDevice;
  if (kind == Kind::kStaticShared && write) static_shared().insert(p);
  Cell& c = table().at(p);
  if (c.launch != position.launch || (shared && c.block != position.block))
    c = {p, position.launch, position.block, {}, {}};
  if (!write && shared && c.writer.thread < 0 && (kind == Kind::kDynamicShared || static_shared().count(p) != 0))
    report("a read of what no thread of the block has written", p, kind, c.writer);
  if (!is_ordered(c.writer, now)) report(write ? "two writes" : "a read beside a write", p, kind, c.writer);
  if (!write) {
    Access& first = c.readers[0];
    if (first.thread < 0 || (first.thread == now.thread && first.block == now.block))
      first = now;
    else
      c.readers[1] = now;
    return;
  }
  for (const Access& reader : c.readers)
    if (!is_ordered(reader, now)) report("a write beside a read", p, kind, reader);
  c.writer = now;
  c.readers[0] = c.readers[1] = {};
}

void access(const void* at, size_t n, bool write) {
  if (!position.kernel) return;
  const uintptr_t p = reinterpret_cast<uintptr_t>(at);
  const Kind kind = kind_of(p);
  if (kind == Kind::kOther) return;
  if (kind == Kind::kStaticShared && !write && static_shared().count(p) == 0) return;  // constants, launch parameters
  if (launch_of_table != position.launch) {
    launch_of_table = position.launch;
    table().clear();
  }
  const Access now{position.thread, position.block, position.block_epoch, warp_epoch(position.thread), is_atomic};
  for (size_t i = 0; i < n; ++i) access_byte(p + i, kind, now, write);
}

}  // namespace

void begin_atomic() { is_atomic = true; }
void end_atomic() { is_atomic = false; }
void note_write(const void* p, size_t n) { access(p, n, true); }

}  // namespace tessera::cuda::emulation

// What the compiler calls.
using tessera::cuda::emulation::access;
extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_read_range(void* p, size_t n) { access(p, n, false); }
void __tsan_write_range(void* p, size_t n) { access(p, n, true); }
#define TESSERA_ACCESS(size)                                            \
  void __tsan_read##size(void* p) { access(p, size, false); }           \
  void __tsan_write##size(void* p) { access(p, size, true); }           \
  void __tsan_unaligned_read##size(void* p) { access(p, size, false); } \
  void __tsan_unaligned_write##size(void* p) { access(p, size, true); }
TESSERA_ACCESS(1)
TESSERA_ACCESS(2)
TESSERA_ACCESS(4)
TESSERA_ACCESS(8)
TESSERA_ACCESS(16)
// Atomic operations of host code in these files: as they are.
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
#define TESSERA_ATOMIC(bits, T)                                                                                     \
  T __tsan_atomic##bits##_load(const volatile T* p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }           \
  void __tsan_atomic##bits##_store(volatile T* p, T v, int) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }           \
  T __tsan_atomic##bits##_exchange(volatile T* p, T v, int) { return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); } \
  T __tsan_atomic##bits##_fetch_add(volatile T* p, T v, int) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); } \
  T __tsan_atomic##bits##_fetch_sub(volatile T* p, T v, int) { return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST); } \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* expected, T v, int, int) {                    \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                  \
  }                                                                                                                 \
  T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T expected, T v, int, int) {                          \
    __atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                        \
    return expected;                                                                                                \
  }
TESSERA_ATOMIC(8, uint8_t)
TESSERA_ATOMIC(16, uint16_t)
TESSERA_ATOMIC(32, uint32_t)
TESSERA_ATOMIC(64, uint64_t)

// -fsanitize=alignment: an address that is no multiple of what its type asks for.
void __ubsan_handle_type_mismatch_v1_abort(void*, uintptr_t at) {
  char text[96];
  std::snprintf(text, sizeof text, "an access at %#zx, which is not aligned for its type", static_cast<size_t>(at));
  tessera::cuda::emulation::fail(text);
}
}

#endif
