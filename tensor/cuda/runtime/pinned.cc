// Pinned host memory, cached by size: powers of two, so that a freed block fits the next request of about its size.
#include <atomic>
#include <bit>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "tensor/core/error.h"
#include "tensor/cuda/runtime/allocator.h"
#include "tensor/cuda/runtime/allocator_internal.h"
#include "tensor/cuda/runtime/streams.h"

namespace tessera::cuda {
namespace {

struct PinnedBlock {
  char* data;
  size_t size;
  std::vector<Stream> used_by{};  // streams whose copies use it since it was allocated
  int pending_events = 0;
  int holds = 0;  // graphs whose replays use it
  bool allocated = true;
  bool is_free() const { return !allocated && pending_events == 0 && holds == 0; }
};

struct Times {
  int64_t total = 0, max = 0, min = 0, count = 0;  // microseconds
  void add(int64_t t) {
    min = count == 0 ? t : std::min(min, t);
    max = std::max(max, t);
    total += t;
    ++count;
  }
  void list(const std::string& name, MemoryStats* to) const {
    to->emplace_back(name + ".total", total);
    to->emplace_back(name + ".max", max);
    to->emplace_back(name + ".min", min);
    to->emplace_back(name + ".count", count);
    to->emplace_back(name + ".avg", count ? total / count : 0);
  }
};

struct Pinned {
  std::mutex mutex;
  std::map<const char*, PinnedBlock*> blocks;        // all, by address
  std::map<size_t, std::vector<PinnedBlock*>> free;  // by size
  std::deque<std::pair<Event, PinnedBlock*>> events;
  Stat allocation, segment, allocated_bytes, reserved_bytes;
  Times alloc_time, free_time;
};
Pinned& pinned() {
  static Pinned& p = *new Pinned;
  return p;
}

int64_t microseconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - t).count();
}

void reuse_if_free(Pinned& p, PinnedBlock* b) {
  if (b->is_free()) p.free[b->size].push_back(b);
}

// Puts blocks into the free lists whose copies have ended.
void process_events(Pinned& p) {
  while (!p.events.empty() && p.events.front().first.query()) {
    PinnedBlock* b = p.events.front().second;
    p.events.pop_front();
    --b->pending_events;
    reuse_if_free(p, b);
  }
}

PinnedBlock* find_block(Pinned& p, const void* address) {
  auto it = p.blocks.upper_bound(static_cast<const char*>(address));
  if (it == p.blocks.begin()) return nullptr;
  PinnedBlock* b = (--it)->second;
  return static_cast<const char*>(address) < b->data + b->size ? b : nullptr;
}

bool allocate_cached(Pinned& p, size_t size, void** out) {
  const auto it = p.free.find(size);
  if (it == p.free.end() || it->second.empty()) return false;
  PinnedBlock* b = it->second.back();
  it->second.pop_back();
  b->allocated = true;
  p.allocation.increase(1);
  p.allocated_bytes.increase(static_cast<int64_t>(size));
  *out = b->data;
  return true;
}

void* new_block(Pinned& p, size_t size) {
  const auto start = std::chrono::steady_clock::now();
  void* data = nullptr;
  {
    RelaxedCapture relaxed;
    check(cudaHostAlloc(&data, size, cudaHostAllocPortable), "cudaHostAlloc");
  }
  std::lock_guard lock(p.mutex);
  p.blocks[static_cast<char*>(data)] = new PinnedBlock{static_cast<char*>(data), size};
  p.alloc_time.add(microseconds_since(start));
  p.allocation.increase(1);
  p.segment.increase(1);
  p.allocated_bytes.increase(static_cast<int64_t>(size));
  p.reserved_bytes.increase(static_cast<int64_t>(size));
  return data;
}

}  // namespace

void* allocate_pinned(size_t nbytes) {
  if (nbytes == 0) return nullptr;
  TESSERA_CHECK(device_count() > 0, "Cannot access accelerator device when none is available.");
  Pinned& p = pinned();
  const size_t size = std::bit_ceil(std::max<size_t>(nbytes, 512));
  {
    std::lock_guard lock(p.mutex);
    if (!is_capturing({op_device(), current_stream()})) process_events(p);
    if (void* data; allocate_cached(p, size, &data)) return data;
  }
  return new_block(p, size);
}

void free_pinned(void* address) {
  if (!address || is_forked()) return;
  Pinned& p = pinned();
  std::lock_guard lock(p.mutex);
  const auto it = p.blocks.find(static_cast<const char*>(address));
  if (it == p.blocks.end() || !it->second->allocated) return;
  PinnedBlock* b = it->second;
  b->allocated = false;
  p.allocation.decrease(1);
  p.allocated_bytes.decrease(static_cast<int64_t>(b->size));
  for (const Stream s : std::exchange(b->used_by, {})) {
    Event e;
    e.record(s);
    ++b->pending_events;
    p.events.emplace_back(std::move(e), b);
  }
  reuse_if_free(p, b);
}

bool hold_pinned(const void* address) {
  Pinned& p = pinned();
  std::lock_guard lock(p.mutex);
  PinnedBlock* b = find_block(p, address);
  if (b) ++b->holds;
  return b;
}

void drop_pinned(const void* address) {
  Pinned& p = pinned();
  std::lock_guard lock(p.mutex);
  PinnedBlock* b = find_block(p, address);
  --b->holds;
  reuse_if_free(p, b);
}

bool record_pinned(const void* address, int device, cudaStream_t stream) {
  Pinned& p = pinned();
  std::lock_guard lock(p.mutex);
  PinnedBlock* b = find_block(p, address);
  if (!b || !b->allocated) return false;
  const Stream s{device, stream};
  if (std::find(b->used_by.begin(), b->used_by.end(), s) == b->used_by.end()) b->used_by.push_back(s);
  return true;
}

bool is_pinned(const void* address) {
  if (device_count() == 0 || is_forked()) return false;
  {
    Pinned& p = pinned();
    std::lock_guard lock(p.mutex);
    if (find_block(p, address)) return true;
  }
  cudaPointerAttributes a;
  if (cudaPointerGetAttributes(&a, address) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  return a.type == cudaMemoryTypeHost;
}

void empty_pinned_cache() {
  Pinned& p = pinned();
  std::lock_guard lock(p.mutex);
  process_events(p);
  for (auto& [size, list] : std::exchange(p.free, {})) {
    for (PinnedBlock* b : list) {
      const auto start = std::chrono::steady_clock::now();
      if (cudaFreeHost(b->data) != cudaSuccess) cudaGetLastError();
      p.free_time.add(microseconds_since(start));
      p.segment.decrease(1);
      p.reserved_bytes.decrease(static_cast<int64_t>(b->size));
      p.blocks.erase(b->data);
      delete b;
    }
  }
}

MemoryStats pinned_memory_stats() {
  Pinned& p = pinned();
  std::lock_guard lock(p.mutex);
  MemoryStats out;
  p.allocation.list("allocated", &out);
  p.allocated_bytes.list("allocated_bytes", &out);
  p.allocation.list("allocation", &out);
  p.alloc_time.list("host_alloc_time", &out);
  p.free_time.list("host_free_time", &out);
  out.emplace_back("num_host_alloc", p.alloc_time.count);
  out.emplace_back("num_host_free", p.free_time.count);
  p.reserved_bytes.list("reserved_bytes", &out);
  p.segment.list("segment", &out);
  return out;
}

void reset_peak_pinned_memory_stats() {
  Pinned& p = pinned();
  std::lock_guard lock(p.mutex);
  for (Stat* s : {&p.allocation, &p.segment, &p.allocated_bytes, &p.reserved_bytes}) s->reset_peak();
}

void reset_accumulated_pinned_memory_stats() {
  Pinned& p = pinned();
  std::lock_guard lock(p.mutex);
  for (Stat* s : {&p.allocation, &p.segment, &p.allocated_bytes, &p.reserved_bytes}) s->reset_accumulated();
  p.alloc_time = p.free_time = {};
}

}  // namespace tessera::cuda
