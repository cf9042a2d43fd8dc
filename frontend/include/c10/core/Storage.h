// The memory that tensors lie in.
#pragma once

#include "c10/core/Device.h"
#include "tensor/core/storage.h"

namespace c10 {

using StorageImpl = tessera::StorageImpl;

class Storage {
 public:
  Storage() = default;
  Storage(tessera::Storage s) : impl_(std::move(s)) {}
  explicit operator bool() const { return static_cast<bool>(impl_); }
  const tessera::Storage& impl() const { return impl_; }
  StorageImpl* unsafeGetStorageImpl() const { return impl_.get(); }
  size_t nbytes() const { return impl_->nbytes(); }
  bool resizable() const { return impl_->resizable(); }
  const void* data() const { return impl_->data(); }
  void* mutable_data() const { return impl_->data(); }
  Device device() const { return impl_->device(); }
  DeviceType device_type() const { return device().type(); }
  size_t use_count() const { return static_cast<size_t>(impl_->use_count()); }
  bool unique() const { return use_count() == 1; }
  bool is_alias_of(const Storage& o) const { return impl_ == o.impl_; }

 private:
  tessera::Storage impl_;
};

}  // namespace c10
