// The memory that tensors lie in.
#pragma once

#include "c10/core/Allocator.h"
#include "tensor/core/storage.h"

namespace c10 {

using StorageImpl = tessera::StorageImpl;

class Storage {
 public:
  Storage() = default;
  Storage(tessera::Storage s) : impl_(std::move(s)) {}
  struct use_byte_size_t {};
  // Memory that is there already; of an allocator.
  Storage(use_byte_size_t, size_t bytes, DataPtr data, Allocator* = nullptr, bool resizable = false) {
    struct Kept {
      void* context;
      DeleterFnPtr deleter;
    };
    void* at = data.mutable_get();
    const Device device = data.device();
    const DeleterFnPtr deleter = data.get_deleter();
    impl_ = StorageImpl::wrap(
        at, bytes, device,
        [](void*, void* context, size_t) {
          const std::unique_ptr<Kept> kept(static_cast<Kept*>(context));
          if (kept->context) kept->deleter(kept->context);
        },
        new Kept{data.release_context(), deleter}, resizable);
  }
  Storage(use_byte_size_t, size_t bytes, Allocator* allocator, bool resizable = false)
      : Storage(use_byte_size_t(), bytes, allocator->allocate(bytes), allocator, resizable) {}
  explicit operator bool() const { return static_cast<bool>(impl_); }
  const tessera::Storage& impl() const { return impl_; }
  StorageImpl* unsafeGetStorageImpl() const { return impl_.get(); }
  size_t nbytes() const { return impl_->nbytes(); }
  bool resizable() const { return impl_->resizable(); }
  const void* data() const { return impl_->data(); }
  void* mutable_data() const { return impl_->data(); }
  // A view of it, which frees nothing.
  DataPtr data_ptr() const { return {impl_->data(), device()}; }
  DataPtr mutable_data_ptr() const { return data_ptr(); }
  Allocator* allocator() const { return device().is_cpu() ? GetCPUAllocator() : nullptr; }
  Device device() const { return impl_->device(); }
  DeviceType device_type() const { return device().type(); }
  size_t use_count() const { return static_cast<size_t>(impl_->use_count()); }
  bool unique() const { return use_count() == 1; }
  bool is_alias_of(const Storage& o) const { return impl_ == o.impl_; }

 private:
  tessera::Storage impl_;
};

}  // namespace c10
