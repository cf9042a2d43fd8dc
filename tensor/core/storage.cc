#include "tensor/core/storage.h"

#include <cstring>
#include <new>
#include <utility>

#include "tensor/core/allocator.h"
#include "tensor/core/device_hooks.h"
#include "tensor/core/error.h"
#include "tensor/core/free_list.h"

namespace tessera {

namespace {
void free_own(void* data, void*, size_t nbytes) { cpu_free(data, nbytes); }
}  // namespace

// Called with each storage that ends, while some are watched (rare/storage_watch.cc).
constinit std::atomic<void (*)(const StorageImpl*)> g_storage_ends{nullptr};

class StoragePool {
 public:
  static StorageImpl* make() { return new (FreeList<StorageImpl>::take()) StorageImpl; }
  static void destroy(StorageImpl* s) {
    s->~StorageImpl();
    FreeList<StorageImpl>::give(s);
  }
};

IntrusivePtr<StorageImpl> StorageImpl::allocate(size_t nbytes) {
  StorageImpl* s = StoragePool::make();
  auto p = IntrusivePtr<StorageImpl>::adopt(s);
  if (nbytes) {
    s->data_ = cpu_allocate(nbytes);
    s->deleter_ = &free_own;
  }
  s->nbytes_ = nbytes;
  return p;
}

IntrusivePtr<StorageImpl> StorageImpl::allocate(size_t nbytes, Device device) {
  if (device.is_cpu()) return allocate(nbytes);
  if (device.is_meta()) return without_data(device, nbytes);
  const DeviceHooks& hooks = device_hooks(device.type);
  TESSERA_CHECK(hooks.allocate, "no library for device ", device.str(), " is loaded");
  void* context = nullptr;
  void* data = nbytes ? hooks.allocate(device, nbytes, &context) : nullptr;
  return wrap(data, nbytes, device, nbytes ? hooks.free : nullptr, context, true);
}

IntrusivePtr<StorageImpl> StorageImpl::without_data(Device device, size_t nbytes) {
  StorageImpl* s = StoragePool::make();
  s->device_ = device;
  s->nbytes_ = nbytes;
  s->shrunk_ = device.is_meta();  // a tensor that says it is elsewhere (a fake one) has nothing to read
  return IntrusivePtr<StorageImpl>::adopt(s);
}

IntrusivePtr<StorageImpl> StorageImpl::wrap(void* data, size_t nbytes, Device device, Deleter deleter, void* context,
                                            bool resizable) {
  StorageImpl* s = StoragePool::make();
  s->data_ = data;
  s->nbytes_ = nbytes;
  s->device_ = device;
  s->deleter_ = deleter;
  s->context_ = context;
  s->resizable_ = resizable;
  return IntrusivePtr<StorageImpl>::adopt(s);
}

StorageImpl::~StorageImpl() {
  if (deleter_) deleter_(data_, context_, nbytes_);
}
void StorageImpl::dispose() {
  if (auto* const tell = g_storage_ends.load(std::memory_order_acquire)) [[unlikely]]
    tell(this);
  StoragePool::destroy(this);
}

void StorageImpl::resize(size_t nbytes) {
  if (nbytes == nbytes_) return;
  TESSERA_CHECK(resizable_, "Trying to resize storage that is not resizable");
  shrunk_ = shrunk_ || nbytes < nbytes_;
  if (device_.is_meta()) {
    nbytes_ = nbytes;
    return;
  }
  const IntrusivePtr<StorageImpl> fresh = allocate(nbytes, device_);
  const size_t kept = nbytes < nbytes_ ? nbytes : nbytes_;
  if (kept && data_ && device_.is_cpu())
    std::memcpy(fresh->data_, data_, kept);
  else if (kept && data_)
    device_hooks(device_.type).copy(fresh->data_, data_, device_, kept);
  std::swap(data_, fresh->data_);
  std::swap(deleter_, fresh->deleter_);
  std::swap(context_, fresh->context_);
  std::swap(nbytes_, fresh->nbytes_);
}

void StorageImpl::swap_memory(StorageImpl& other) {
  std::swap(data_, other.data_);
  std::swap(nbytes_, other.nbytes_);
  std::swap(deleter_, other.deleter_);
  std::swap(context_, other.context_);
  std::swap(device_, other.device_);
  std::swap(resizable_, other.resizable_);
  std::swap(shared_memory_, other.shared_memory_);
  (nbytes_ < other.nbytes_ ? shrunk_ : other.shrunk_) |= nbytes_ != other.nbytes_;  // who got less
}

}  // namespace tessera
