// CPU memory: 64-byte aligned, cached by size class, so that a fresh result does not cost fresh pages.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

// At least n bytes, aligned to 64; never null (n == 0 gives a valid address). Throws OutOfMemoryError ("not enough
// memory: you tried to allocate ... bytes").
void* cpu_allocate(size_t n);
// n as given to cpu_allocate. Any thread may free.
void cpu_free(void* p, size_t n) noexcept;

struct CpuAllocatorStats {
  int64_t allocated_bytes;  // in use, as rounded to size classes
  int64_t cached_bytes;     // kept for reuse
  int64_t allocations;      // calls served, since start
  int64_t system_calls;     // blocks fetched from the system
};
CpuAllocatorStats cpu_allocator_stats();
// Gives cached memory of this thread and of the shared lists back to the system.
void cpu_empty_cache();
// At most this many bytes stay cached (default 1 GiB, environment TESSERA_CPU_CACHE_MB); more is given back at once.
void set_cpu_cache_limit(size_t bytes);

}  // namespace tessera
