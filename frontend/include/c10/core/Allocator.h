// Memory with what gives it back, and where it comes from.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "c10/core/Device.h"
#include "c10/util/Exception.h"

namespace c10 {

using DeleterFnPtr = void (*)(void*);
namespace detail {
inline void deleteNothing(void*) {}
}  // namespace detail

// `data`, which deleter(context) frees.
class DataPtr {
 public:
  DataPtr() : DataPtr(nullptr, nullptr, &detail::deleteNothing, kCPU) {}
  DataPtr(void* data, Device device) : DataPtr(data, nullptr, &detail::deleteNothing, device) {}
  DataPtr(void* data, void* context, DeleterFnPtr deleter, Device device)
      : data_(data), context_(context, deleter ? deleter : &detail::deleteNothing), device_(device) {}
  void* operator->() const { return data_; }
  const void* get() const { return data_; }
  void* get() { return data_; }
  void* mutable_get() { return data_; }
  explicit operator bool() const { return data_ || context_; }
  void clear() { context_.reset(), data_ = nullptr; }
  void* get_context() const { return context_.get(); }
  void* release_context() { return context_.release(); }
  std::unique_ptr<void, DeleterFnPtr>&& move_context() { return std::move(context_); }
  DeleterFnPtr get_deleter() const { return context_.get_deleter(); }
  template <class T>
  T* cast_context(DeleterFnPtr expected) const {
    return get_deleter() == expected ? static_cast<T*>(get_context()) : nullptr;
  }
  bool compare_exchange_deleter(DeleterFnPtr expected, DeleterFnPtr now) {
    if (get_deleter() != expected) return false;
    context_ = std::unique_ptr<void, DeleterFnPtr>(context_.release(), now);
    return true;
  }
  Device device() const { return device_; }
  void unsafe_set_device(Device d) { device_ = d; }
  friend bool operator==(const DataPtr& p, std::nullptr_t) { return !p; }

 private:
  void* data_;
  std::unique_ptr<void, DeleterFnPtr> context_;
  Device device_;
};

class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual DataPtr allocate(size_t n) = 0;
  // Frees what raw_allocate gives; null where that needs more than an address.
  virtual DeleterFnPtr raw_deleter() const { return nullptr; }
  virtual void copy_data(void* to, const void* from, size_t n) const { std::memcpy(to, from, n); }
  DataPtr clone(const void* data, size_t n) {
    DataPtr made = allocate(n);
    copy_data(made.mutable_get(), data, n);
    return made;
  }
  void* raw_allocate(size_t n) {
    DataPtr made = allocate(n);
    TORCH_CHECK(made.get() == made.get_context(), "raw_allocate: this allocator needs more than an address to free");
    return made.release_context();
  }
  void raw_deallocate(void* p) {
    TORCH_CHECK(raw_deleter(), "raw_deallocate: this allocator has no raw_deleter()");
    raw_deleter()(p);
  }
};

// 64-byte aligned memory of the host.
class DefaultCPUAllocator final : public Allocator {
 public:
  DataPtr allocate(size_t n) override {
    void* p = n ? std::aligned_alloc(64, (n + 63) / 64 * 64) : nullptr;
    TORCH_CHECK(p || !n, "not enough memory: you tried to allocate ", n, " bytes");
    return {p, p, &std::free, kCPU};
  }
  DeleterFnPtr raw_deleter() const override { return &std::free; }
};
inline Allocator* GetDefaultCPUAllocator() {
  static DefaultCPUAllocator instance;
  return &instance;
}
// What extensions ask for memory; tensors keep to their own.
inline Allocator* GetCPUAllocator() { return GetDefaultCPUAllocator(); }
inline Allocator* GetAllocator(DeviceType type) {
  TORCH_CHECK(type == kCPU, "there is no allocator for ", type, ": make tensors on it instead");
  return GetCPUAllocator();
}

}  // namespace c10
namespace at {
using c10::Allocator;
using c10::DataPtr;
inline c10::Allocator* getCPUAllocator() { return c10::GetCPUAllocator(); }
}  // namespace at
