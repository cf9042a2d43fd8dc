// Memory of devices and pinned memory of the host: caching allocators, ordered by streams, with the statistics and
// settings that torch.cuda documents.
//
// A freed block is used again at once by later work of the stream that it was allocated for. A block that other streams
// used (record_stream) waits for them first. Blocks are cut from segments, which are what the device is asked for: 2
// MiB for blocks of up to 1 MiB, 20 MiB for blocks below 10 MiB, multiples of 2 MiB above.
#pragma once

#include <cuda_runtime_api.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tensor/cuda/runtime/runtime.h"

namespace tessera::cuda {

// cuda::allocate and cuda::free are those of runtime.h, on the current device and stream. OutOfMemoryError with the
// documented text.
void* allocate_on(int device, cudaStream_t stream, size_t nbytes);
// The block of p is used by work of `stream`, of any device, too.
void record_stream(void* p, int device, cudaStream_t stream);
// Gives unused segments back to the devices.
void empty_cache();

// Statistics: (key, value), keys as in torch.cuda.memory_stats ("allocated_bytes.all.current" ...).
using MemoryStats = std::vector<std::pair<std::string, int64_t>>;
MemoryStats memory_stats(int device);
void reset_peak_memory_stats(int device);
void reset_accumulated_memory_stats(int device);
std::pair<size_t, size_t> memory_info(int device);  // free, total

// At most this part of the device's memory is reserved.
void set_memory_fraction(double fraction, int device);
double memory_fraction(int device);

// PYTORCH_ALLOC_CONF's text ("max_split_size_mb:128,..."); the environment's is read before the first allocation.
// ValueError.
void set_allocator_settings(const std::string& text);
std::string allocator_settings();

// Private pools: what is allocated by streams that `filter` accepts goes to the pool of that id, whose memory nobody
// else gets. A pool is counted: begin_pool adds one user, release_pool takes it away. Without users, its segments go
// back to the device as they become free.
using PoolId = std::pair<uint64_t, uint64_t>;
PoolId new_pool_id(bool by_user);  // (0, n) for graphs, (n, 0) for pools of the user
void begin_pool(int device, PoolId id, std::function<bool(cudaStream_t)> filter);
void end_pool(int device, PoolId id);  // allocations go where they went before
void release_pool(int device, PoolId id);
int pool_use_count(int device, PoolId id);
struct PoolOptions;
void set_pool_options(int device, PoolId id, const PoolOptions& options);  // before anything is allocated from it

struct BlockInfo {
  size_t size, requested;
  uintptr_t address;
  enum State { kAllocated, kPendingFree, kFree } state;
};
struct SegmentInfo {
  int device;
  uintptr_t address;
  cudaStream_t stream;
  size_t total, allocated, active, requested;
  bool small, expandable;
  PoolId pool;
  std::vector<BlockInfo> blocks;
};
std::vector<SegmentInfo> memory_snapshot();  // of all devices, by address

// What was done since record_memory_history(true): the last max_entries events, oldest first.
struct AllocatorEvent {
  enum Action { kAlloc, kFreeRequested, kFreeCompleted, kSegmentAlloc, kSegmentFree, kOom } action;
  int device;
  uintptr_t address;  // kOom: the free bytes of the device
  size_t size;
  cudaStream_t stream;
  int64_t time_us;  // since 1970
};
void record_memory_history(bool on, size_t max_entries, bool clear);
std::vector<AllocatorEvent> memory_history();

// Off: memory comes from the device each time, and goes back at once. PYTORCH_NO_CUDA_MEMORY_CACHING=1 begins with it
// off.
void set_caching(bool on);
// Functions of the user do all allocations from now on. Error if memory was allocated before.
using AllocateFunction = void* (*)(ssize_t nbytes, int device, cudaStream_t stream);
using FreeFunction = void (*)(void* p, ssize_t nbytes, int device, cudaStream_t stream);
void set_pluggable_allocator(AllocateFunction allocate, FreeFunction free);

struct PoolOptions {
  AllocateFunction allocate = nullptr;  // where the pool's segments come from, if not from the device
  FreeFunction free = nullptr;
  bool use_on_oom = false;  // who finds no other memory may take the pool's free blocks
  bool no_split = false;    // blocks are not cut
};

// Pinned memory. A freed block is used again when the copies that were recorded for it are done.
void* allocate_pinned(size_t nbytes);
void free_pinned(void* p);
// Work that was given to `stream` up to now uses the block that holds p. False if p is not in one.
bool record_pinned(const void* p, int device, cudaStream_t stream);
bool is_pinned(const void* p);  // also memory that others pinned
void empty_pinned_cache();
MemoryStats pinned_memory_stats();
void reset_peak_pinned_memory_stats();
void reset_accumulated_pinned_memory_stats();

}  // namespace tessera::cuda
