#include "tensor/core/device_hooks.h"

#include <atomic>

#include "tensor/core/error.h"

namespace tessera {

namespace {
std::atomic<DeviceLoader> loader{nullptr};
std::atomic<uint32_t> asked{0};  // types whose loader has been called
}  // namespace

DeviceHooks& device_hooks(DeviceType t) {
  static DeviceHooks hooks[32];
  DeviceHooks& h = hooks[static_cast<int>(t)];
  if (!h.allocate && loader.load(std::memory_order_acquire)) [[unlikely]] {
    const uint32_t bit = 1u << static_cast<int>(t);
    if (!(asked.fetch_or(bit) & bit)) loader.load()(t);
  }
  return h;
}
void set_device_loader(DeviceLoader f) { loader.store(f, std::memory_order_release); }

Device complete_device(Device d) {
  if (d.is_cpu()) return Device(DeviceType::kCPU);  // cpu:0 is cpu
  if (d.is_meta()) return d;
  const DeviceHooks& hooks = device_hooks(d.type);
  if (!hooks.allocate) {
    TESSERA_CHECK(!d.is_cuda(), "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from http://www.nvidia.com/Download/index.aspx");
    internal::raise<Error>("no library for device ", d.str(), " is loaded");
  }
  if (!d.has_index()) return Device(d.type, hooks.current_index());
  TESSERA_CHECK(d.index < hooks.count(), d.is_cuda() ? "CUDA" : device_type_name(d.type), " error: invalid device ordinal: there is no ", d.str(), ", this system has ", hooks.count(),
                hooks.count() == 1 ? " such device" : " such devices");
  return d;
}

}  // namespace tessera
