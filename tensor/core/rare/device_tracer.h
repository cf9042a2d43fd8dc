// What a device's library tells of the device's work while somebody records it (profiler/).
#pragma once

#include <cstdint>

#include "tensor/core/device.h"

namespace tessera {

// One piece of work of a device, or a call of its runtime by a thread of the host.
struct DeviceActivity {
  enum class Kind : uint8_t { kKernel, kCopy, kSet, kCall };
  Kind kind = Kind::kKernel;
  int32_t device = -1, context = -1;  // of calls -1
  uint32_t correlation = 0;           // a call and the work that it asked for have the same
  const char* name = "";              // valid during the call that tells of it
  int64_t start_ns = 0, end_ns = 0;   // since 1970
  uint64_t owner = 0;                 // what the thread had pushed last when it asked for the work, 0: nothing
  int64_t place = 0;                  // the stream's number; of a call the system's number of the thread
  int64_t bytes = 0;                  // of copies and sets
  uint32_t grid[3] = {}, block[3] = {};
  int32_t registers = 0;     // of a kernel, for each thread
  int64_t shared_bytes = 0;  // of a kernel, for each block
};

struct DeviceTracer {
  // Tracing begins. Null, or why there is none and what can be done about it: a text that is never taken away.
  const char* (*start)();
  // What this thread asks of devices from now on is `owner`'s, until pop: they nest.
  void (*push)(uint64_t owner);
  void (*pop)();
  // Waits for the devices, then tells of all that was traced; tracing has ended. Times are on one scale with
  // `monotonic_ns` of the system's clock and `wall_ns` at that moment.
  void (*stop)(int64_t monotonic_ns, int64_t wall_ns, void (*take)(void* to, const DeviceActivity& activity), void* to);
};

// Null for types without one, and while the type's library is not loaded. The tracer lives for ever.
const DeviceTracer* device_tracer(DeviceType t);
void set_device_tracer(DeviceType t, const DeviceTracer* tracer);

}  // namespace tessera
