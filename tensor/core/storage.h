// Untyped memory that tensors view. It can be resized (also to zero and back) while tensors keep their identity.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tensor/core/device.h"
#include "tensor/core/intrusive.h"

namespace tessera {

// Counts in-place writes. Shared by a tensor, its views and its detached twins; `.data` gets one of its own.
class VersionCounter : public RefCounted {
 public:
  std::atomic<uint32_t> value{0};
};

class StorageImpl final : public RefCounted {
 public:
  using Deleter = void (*)(void* data, void* context, size_t nbytes);

  // Own CPU memory, uninitialised.
  static IntrusivePtr<StorageImpl> allocate(size_t nbytes);
  // Own memory of a device; its library must be loaded (device_hooks.h).
  static IntrusivePtr<StorageImpl> allocate(size_t nbytes, Device device);
  // No memory: meta tensors, wrappers.
  static IntrusivePtr<StorageImpl> without_data(Device device, size_t nbytes);
  // Somebody else's memory: deleter(data, context, nbytes) runs at the end (may be null).
  static IntrusivePtr<StorageImpl> wrap(void* data, size_t nbytes, Device device, Deleter deleter, void* context,
                                        bool resizable = false);

  void* data() const { return data_; }
  size_t nbytes() const { return nbytes_; }
  Device device() const { return device_; }
  bool resizable() const { return resizable_; }
  void set_resizable(bool b) { resizable_ = b; }  // off while somebody outside holds the address
  // It has been larger: tensors may reach beyond its end, so they check before they hand out addresses.
  bool was_shrunk() const { return shrunk_; }
  bool is_shared_memory() const { return shared_memory_; }
  void mark_shared_memory() { shared_memory_ = true; }
  std::atomic<uint32_t>& version() { return version_; }
  Deleter deleter() const { return deleter_; }
  void* context() const { return context_; }

  // Keeps the first min(old, new) bytes. Error if not resizable.
  void resize(size_t nbytes);
  // Takes other's memory (Tensor.set_data, _share_memory); other becomes empty.
  void swap_memory(StorageImpl& other);

  // Weak reference to the Python object that stands for this storage.
  std::atomic<void*> pyobject{nullptr};

 private:
  StorageImpl() = default;
  ~StorageImpl() override;
  void dispose() override;
  friend class StoragePool;

  void* data_ = nullptr;
  size_t nbytes_ = 0;
  Deleter deleter_ = nullptr;
  void* context_ = nullptr;
  std::atomic<uint32_t> version_{0};
  Device device_;
  bool resizable_ = true;
  bool shared_memory_ = false;
  bool shrunk_ = false;
};
using Storage = IntrusivePtr<StorageImpl>;

}  // namespace tessera
