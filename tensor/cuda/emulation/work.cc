#include "tensor/cuda/emulation/work.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "tensor/cuda/emulation/memory.h"
#include "tensor/cuda/emulation/orders.h"

namespace tessera::cuda::emulation {
namespace {

constexpr size_t kMostItems = 4096;  // of a queue, before it is worked off

// Of all queues. Work is done under it: it starts no other.
std::recursive_mutex& turn() {
  static std::recursive_mutex& m = *new std::recursive_mutex;
  return m;
}
// Those with work; they live until it is done.
std::vector<std::shared_ptr<Queue>>& busy() {
  static auto& queues = *new std::vector<std::shared_ptr<Queue>>;
  return queues;
}
// All streams that the default stream waits for, and that wait for it.
std::vector<std::weak_ptr<Queue>>& blocking_queues() {
  static auto& queues = *new std::vector<std::weak_ptr<Queue>>;
  return queues;
}

}  // namespace

bool deferred() {
  static const bool value = [] {
    const char* s = std::getenv("TESSERA_EMULATED_DEFERRED");
    return s && std::strcmp(s, "1") == 0;
  }();
  return value;
}

std::shared_ptr<Queue> Queue::make(int device, bool waits_for_default) {
  const std::lock_guard lock(turn());
  auto q = std::make_shared<Queue>();
  q->device_ = device;
  q->blocking_ = waits_for_default;
  if (waits_for_default) blocking_queues().push_back(q);
  return q;
}

const std::shared_ptr<Queue>& Queue::of_default(int device) {
  const std::lock_guard lock(turn());
  static auto& queues = *new std::map<int, std::shared_ptr<Queue>>;
  std::shared_ptr<Queue>& q = queues[device];
  if (!q) q = make(device, false);
  return q;
}

// The legacy default stream and those that were made without cudaStreamNonBlocking wait for each other.
void Queue::follow_default() {
  if (blocking_) return wait_for(of_default(device_)->mark());
  if (this != of_default(device_).get()) return;
  for (const std::weak_ptr<Queue>& weak : blocking_queues())
    if (const std::shared_ptr<Queue> q = weak.lock(); q && q->device_ == device_) wait_for(q->mark());
}

void Queue::add(Work work) {
  const std::lock_guard lock(turn());
  follow_default();
  if (items_.empty()) busy().push_back(shared_from_this());
  items_.push_back({std::move(work), {}});
  ++added_;
  if (items_.size() > kMostItems) finish(mark());
}

void Queue::wait_for(const Mark& mark) {
  const std::lock_guard lock(turn());
  if (!mark.queue || mark.queue.get() == this || mark.queue->done_ >= mark.count) return;
  if (items_.empty()) busy().push_back(shared_from_this());
  items_.push_back({nullptr, mark});
  ++added_;
}

Mark Queue::mark() {
  const std::lock_guard lock(turn());
  return {shared_from_this(), added_};
}

bool Queue::ready() const {
  if (items_.empty() || at_work_) return false;
  const Item& next = items_.front();
  return next.work || next.awaited.queue->done_ >= next.awaited.count;
}

void Queue::step() {
  at_work_ = true;
  const Item& next = items_.front();
  if (next.work)
    next.work();
  else
    finish(next.awaited);
  at_work_ = false;
  items_.pop_front();
  ++done_;
  if (items_.empty()) std::erase_if(busy(), [this](const auto& q) { return q.get() == this; });
}

// With a seed: some work that nobody waits for yet.
void go_on_elsewhere() {
  while (has_seed() && drawn(2) == 1) {
    std::vector<std::shared_ptr<Queue>> ready;
    for (const auto& q : busy())
      if (q->ready()) ready.push_back(q);
    if (ready.empty()) return;
    ready[drawn(ready.size())]->step();
  }
}

void finish(const Mark& mark) {
  if (!mark.queue) return;
  const std::lock_guard lock(turn());
  const std::shared_ptr<Queue> q = mark.queue;
  // Once for all of it; with several devices each piece of work sees what its own one reaches.
  std::optional<DeviceAccess> access;
  if (q->done_ < mark.count && emulated_devices() == 1) access.emplace();
  while (q->done_ < mark.count) {
    go_on_elsewhere();
    if (q->done_ < mark.count) q->step();
  }
}

void finish_device(int device) {
  const std::lock_guard lock(turn());
  for (bool more = true; more;) {
    more = false;
    for (const std::shared_ptr<Queue>& q : std::vector(busy()))
      if (q->device_ == device && !q->items_.empty()) {
        finish(q->mark());
        more = true;
      }
  }
}

}  // namespace tessera::cuda::emulation
