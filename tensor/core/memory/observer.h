// Watching CPU memory: counters of the allocator, and who is told of each block. Not part of allocator.h, so that the
// libraries which only compute do not see it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tessera {

// Told of every block, on the thread that takes or returns it. Neither function may allocate tensors or throw.
struct MemoryObserver {
  void (*allocated)(void* block, size_t bytes);
  void (*freed)(void* block, size_t bytes);
};
// Null while nobody watches. The object that it points to must live for ever: other threads may just be calling it.
extern constinit std::atomic<const MemoryObserver*> g_memory_observer;

// Of all CPU tensors of the process. "bytes" are those of blocks (a block is at most a quarter larger than what was
// asked for, and at least 64 bytes), "requested" what was asked for.
struct CpuMemoryStats {
  int64_t blocks = 0, blocks_allocated = 0, blocks_freed = 0;  // now, and since the start of the process or the reset
  int64_t bytes = 0, bytes_peak = 0, bytes_allocated = 0, bytes_freed = 0;
  int64_t requested = 0, requested_allocated = 0, requested_freed = 0;
  int64_t cached = 0;   // kept for the next tensors in the lists that threads share
  int64_t retries = 0;  // calls that found no memory until the cache was emptied
  int64_t failures = 0;
};
// Each thread counts for itself and adds to the common peak at every change of 256 KiB, so the peak is exact to that
// for each thread that allocates.
CpuMemoryStats cpu_memory_stats();
void reset_peak_cpu_memory();
void reset_accumulated_cpu_memory();
// Gives what is cached for this thread and for all of them together back to the system.
void empty_cpu_cache();

}  // namespace tessera
