#include "tensor/core/device_hooks.h"

#include <atomic>

#include "tensor/core/error.h"

namespace tessera {

namespace {
std::atomic<DeviceLoader> loader{nullptr};
std::atomic<uint32_t> asked{0};  // types whose loader has been called

DeviceHooks& hooks_of(DeviceType t) {
  static DeviceHooks hooks[32];
  return hooks[static_cast<int>(t)];
}
}  // namespace

DeviceHooks& device_hooks(DeviceType t) {
  DeviceHooks& h = hooks_of(t);
  if (!h.allocate && loader.load(std::memory_order_acquire)) [[unlikely]] {
    const uint32_t bit = 1u << static_cast<int>(t);
    if (!(asked.fetch_or(bit) & bit)) loader.load()(t);
  }
  return h;
}
void set_device_loader(DeviceLoader f) { loader.store(f, std::memory_order_release); }

const DeviceHooks* loaded_device_hooks(DeviceType t) {
  const DeviceHooks& h = hooks_of(t);
  return h.allocate ? &h : nullptr;
}

Storage allocate_pinned(size_t nbytes) {
  const DeviceHooks& hooks = device_hooks(DeviceType::kCUDA);
  TESSERA_CHECK(hooks.allocate_pinned, "Cannot access accelerator device when none is available.");
  if (nbytes == 0) return StorageImpl::allocate(0);
  void* context = nullptr;
  void* data = hooks.allocate_pinned(nbytes, &context);
  return StorageImpl::wrap(data, nbytes, Device(), hooks.free_pinned, context);
}
bool is_pinned(const StorageImpl& s) {
  const DeviceHooks* hooks = s.device().is_cpu() && s.data() ? loaded_device_hooks(DeviceType::kCUDA) : nullptr;
  return hooks && hooks->is_pinned && hooks->is_pinned(s.data());
}

Device complete_device(Device d) {
  if (d.is_cpu()) return Device(DeviceType::kCPU);  // cpu:0 is cpu
  if (d.is_meta()) return d;
  const DeviceHooks& hooks = device_hooks(d.type);
  if (!hooks.allocate) {
    TESSERA_CHECK(!hooks.problem, hooks.problem);
    TESSERA_CHECK(!d.is_cuda(),
                  "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a "
                  "driver from http://www.nvidia.com/Download/index.aspx");
    internal::raise<Error>("no library for device ", d.str(), " is loaded");
  }
  if (!d.has_index()) return Device(d.type, hooks.current_index());
  TESSERA_CHECK(d.index < hooks.count(), d.is_cuda() ? "CUDA" : device_type_name(d.type),
                " error: invalid device ordinal: there is no ", d.str(), ", this system has ", hooks.count(),
                hooks.count() == 1 ? " such device" : " such devices");
  return d;
}

}  // namespace tessera
