// Reference counting inside the object: one pointer per handle, no control block.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace tessera {

// Base of shared objects. Starts with a count of 1, which the first IntrusivePtr adopts.
class RefCounted {
 public:
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;
  void retain() const { count_.fetch_add(1, std::memory_order_relaxed); }
  void release() const {
    // A sole owner needs no read-modify-write: nobody else can add a reference.
    if (count_.load(std::memory_order_acquire) == 1 || count_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      const_cast<RefCounted*>(this)->dispose();
  }
  // Whoever finds itself alone may write or destroy: it sees all that the others did before they let go.
  int64_t use_count() const { return count_.load(std::memory_order_acquire); }

 protected:
  RefCounted() = default;
  virtual ~RefCounted() = default;
  virtual void dispose() { delete this; }  // overridden by classes with a free list

 private:
  mutable std::atomic<int32_t> count_{1};
};

template <class T>
class IntrusivePtr {
 public:
  IntrusivePtr() = default;
  IntrusivePtr(std::nullptr_t) {}
  static IntrusivePtr adopt(T* p) {
    IntrusivePtr r;
    r.p_ = p;
    return r;
  }  // takes over a reference
  static IntrusivePtr share(T* p) {
    if (p) p->retain();
    return adopt(p);
  }  // adds one
  IntrusivePtr(const IntrusivePtr& o) : p_(o.p_) {
    if (p_) p_->retain();
  }
  IntrusivePtr(IntrusivePtr&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  template <class U>
  requires std::is_convertible_v<U*, T*> IntrusivePtr(const IntrusivePtr<U>& o) : p_(o.get()) {
    if (p_) p_->retain();
  }
  template <class U>
  requires std::is_convertible_v<U*, T*> IntrusivePtr(IntrusivePtr<U>&& o)
  noexcept : p_(o.leak()) {}
  IntrusivePtr& operator=(IntrusivePtr o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~IntrusivePtr() {
    if (p_) p_->release();
  }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  T* leak() { return std::exchange(p_, nullptr); }
  void reset() { *this = IntrusivePtr(); }
  friend bool operator==(const IntrusivePtr& a, const IntrusivePtr& b) { return a.p_ == b.p_; }

 private:
  T* p_ = nullptr;
};

template <class T, class... A>
IntrusivePtr<T> make_intrusive(A&&... a) {
  return IntrusivePtr<T>::adopt(new T(std::forward<A>(a)...));
}

}  // namespace tessera
