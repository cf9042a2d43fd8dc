#include "tensor/core/rare/device_tracer.h"

#include <atomic>

namespace tessera {
namespace {
std::atomic<const DeviceTracer*> g_tracers[32];
}

const DeviceTracer* device_tracer(DeviceType t) {
  return g_tracers[static_cast<int>(t)].load(std::memory_order_acquire);
}
void set_device_tracer(DeviceType t, const DeviceTracer* tracer) {
  g_tracers[static_cast<int>(t)].store(tracer, std::memory_order_release);
}

}  // namespace tessera
