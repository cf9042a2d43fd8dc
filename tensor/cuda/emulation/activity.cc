#include "tensor/cuda/emulation/activity.h"

#include <chrono>
#include <utility>

namespace tessera::cuda::emulation {

std::atomic<const ActivityListener*> activity_listener{nullptr};

namespace {
std::atomic<uint32_t> last_correlation{0};
thread_local uint32_t correlation = 0;  // 0: this thread is in no call
}  // namespace

int64_t activity_now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

RuntimeCall::RuntimeCall(const char* name) : listener_(correlation ? nullptr : activity_listener.load()), name_(name) {
  if (!listener_) return;
  correlation = ++last_correlation;
  listener_->call_begins(correlation);
  start_ = activity_now();
}
RuntimeCall::~RuntimeCall() {
  if (listener_) listener_->call_ended(name_, std::exchange(correlation, 0), start_, activity_now());
}

WorkNote::~WorkNote() {
  if (listener_) listener_->worked(work_, correlation, start_, activity_now());
}

}  // namespace tessera::cuda::emulation
