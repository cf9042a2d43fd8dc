// What the allocator did, for torch.cuda.memory._snapshot.
#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>

#include "tensor/cuda/runtime/allocator.h"
#include "tensor/cuda/runtime/allocator_internal.h"

namespace tessera::cuda {
namespace {

std::atomic<bool> recording{false};
std::mutex mutex;
std::deque<AllocatorEvent> events;
size_t most_events = 0;

}  // namespace

void record_memory_history(bool on, size_t max_entries, bool clear) {
  std::lock_guard lock(mutex);
  if (clear) events.clear();
  most_events = max_entries;
  recording = on;
}

std::vector<AllocatorEvent> memory_history() {
  std::lock_guard lock(mutex);
  return {events.begin(), events.end()};
}

void note(AllocatorEvent::Action action, int device, const void* address, size_t size, cudaStream_t stream) {
  if (!recording.load(std::memory_order_relaxed)) [[likely]]
    return;
  std::lock_guard lock(mutex);
  if (most_events == 0) return;
  while (events.size() >= most_events) events.pop_front();
  const int64_t now =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  events.push_back({action, device, reinterpret_cast<uintptr_t>(address), size, stream, now});
}

}  // namespace tessera::cuda
