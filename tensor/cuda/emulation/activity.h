// What the emulated devices do, for who listens (CUPTI's stand-in, cupti.cc). Nobody does: a load for each call.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tessera::cuda::emulation {

enum class WorkKind { kKernel, kCopy, kSet };
struct Where {
  int device;
  uint32_t stream;
};

struct ActivityListener {
  struct Work {
    WorkKind kind;
    Where where;
    const char* name = "";  // of kernels, mangled
    dim3 blocks = {}, threads = {};
    size_t shared_bytes = 0, bytes = 0;
    int from = -1, to = -1;  // devices of copies; -1: the host's memory
  };
  // Correlation: of the call of the runtime that this thread is in.
  void (*call_begins)(uint32_t correlation);
  void (*call_ended)(const char* name, uint32_t correlation, int64_t start, int64_t end);
  void (*worked)(const Work& work, uint32_t correlation, int64_t start, int64_t end);
};
extern std::atomic<const ActivityListener*> activity_listener;

int64_t activity_now();  // nanoseconds of the clock that both tell times of

// Around a function of the runtime; one inside of another one is part of it.
class RuntimeCall {
 public:
  explicit RuntimeCall(const char* name);
  ~RuntimeCall();
  RuntimeCall(const RuntimeCall&) = delete;

 private:
  const ActivityListener* listener_;
  const char* name_;
  int64_t start_ = 0;
};

// Around work of a device.
class WorkNote {
 public:
  using Work = ActivityListener::Work;
  explicit WorkNote(const Work& work) : listener_(activity_listener.load()), work_(work) {
    if (listener_) start_ = activity_now();
  }
  ~WorkNote();
  WorkNote(const WorkNote&) = delete;

 private:
  const ActivityListener* listener_;
  Work work_;
  int64_t start_ = 0;
};

}  // namespace tessera::cuda::emulation
