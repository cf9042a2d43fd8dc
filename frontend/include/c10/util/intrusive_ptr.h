// Counted pointers, and MaybeOwned.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "c10/util/Exception.h"
#include "tensor/core/intrusive.h"

namespace c10 {

class intrusive_ptr_target;
namespace detail {
// What weak pointers to an object share; it outlives the object.
struct WeakBlock : tessera::RefCounted {
  std::mutex mutex;
  intrusive_ptr_target* target = nullptr;  // null: gone
};
}  // namespace detail

class intrusive_ptr_target : public tessera::RefCounted {
 public:
  intrusive_ptr_target() = default;
  intrusive_ptr_target(const intrusive_ptr_target&) : tessera::RefCounted() {}
  intrusive_ptr_target& operator=(const intrusive_ptr_target&) { return *this; }
  ~intrusive_ptr_target() override {
    if (detail::WeakBlock* b = weak_.load()) b->release();
  }
  detail::WeakBlock& weak_block() const {
    if (detail::WeakBlock* b = weak_.load()) return *b;
    auto* made = new detail::WeakBlock;
    made->target = const_cast<intrusive_ptr_target*>(this);
    detail::WeakBlock* before = nullptr;
    if (weak_.compare_exchange_strong(before, made)) return *made;
    made->release();
    return *before;
  }

 protected:
  virtual void release_resources() {}
  void dispose() override {
    if (detail::WeakBlock* b = weak_.load()) {
      std::unique_lock lock(b->mutex);
      if (use_count() > 1) {  // locked since the last owner looked: it is not the last
        lock.unlock();
        return release();
      }
      b->target = nullptr;
    }
    release_resources();
    delete this;
  }

 private:
  mutable std::atomic<detail::WeakBlock*> weak_{nullptr};
};

template <class T>
class intrusive_ptr : public tessera::IntrusivePtr<T> {
  using Base = tessera::IntrusivePtr<T>;

 public:
  using element_type = T;
  using Base::Base;
  intrusive_ptr() = default;
  intrusive_ptr(Base p) : Base(std::move(p)) {}
  template <class... A>
  static intrusive_ptr make(A&&... a) {
    return Base::adopt(new T(std::forward<A>(a)...));
  }
  static intrusive_ptr reclaim(T* p) { return Base::adopt(p); }
  static intrusive_ptr unsafe_steal_from_new(T* p) { return Base::adopt(p); }
  T* release() { return this->leak(); }
  size_t use_count() const { return this->get() ? static_cast<size_t>(this->get()->use_count()) : 0; }
  bool unique() const { return use_count() == 1; }
  bool defined() const { return this->get() != nullptr; }
};
template <class T, class... A>
intrusive_ptr<T> make_intrusive(A&&... a) {
  return intrusive_ptr<T>::make(std::forward<A>(a)...);
}
template <class T, class U>
intrusive_ptr<T> static_intrusive_pointer_cast(const intrusive_ptr<U>& p) {
  return tessera::IntrusivePtr<T>::share(static_cast<T*>(p.get()));
}
template <class T, class U>
intrusive_ptr<T> dynamic_intrusive_pointer_cast(const intrusive_ptr<U>& p) {
  return tessera::IntrusivePtr<T>::share(dynamic_cast<T*>(p.get()));
}

// Knows an object without keeping it: lock() gives it, or null once it has gone.
template <class T>
class weak_intrusive_ptr {
  static_assert(std::is_base_of_v<intrusive_ptr_target, T>, "weak pointers are to classes of intrusive_ptr_target");

 public:
  using element_type = T;
  weak_intrusive_ptr() = default;
  explicit weak_intrusive_ptr(const intrusive_ptr<T>& p) : p_(p.get()) {
    if (p_) block_ = tessera::IntrusivePtr<detail::WeakBlock>::share(&p->weak_block());
  }
  intrusive_ptr<T> lock() const {
    if (!block_) return {};
    const std::lock_guard guard(block_->mutex);
    if (!block_->target || block_->target->use_count() == 0) return {};
    return tessera::IntrusivePtr<T>::share(p_);
  }
  size_t use_count() const {
    if (!block_) return 0;
    const std::lock_guard guard(block_->mutex);
    return block_->target ? static_cast<size_t>(block_->target->use_count()) : 0;
  }
  // Weak pointers to it, and one more while it lives.
  size_t weak_use_count() const { return block_ ? static_cast<size_t>(block_->use_count()) : 0; }
  bool expired() const { return use_count() == 0; }
  void reset() { *this = {}; }
  void swap(weak_intrusive_ptr& o) { std::swap(*this, o); }
  T* _unsafe_get_target() const { return p_; }
  friend bool operator==(const weak_intrusive_ptr& a, const weak_intrusive_ptr& b) { return a.p_ == b.p_; }
  friend bool operator<(const weak_intrusive_ptr& a, const weak_intrusive_ptr& b) { return a.p_ < b.p_; }

 private:
  T* p_ = nullptr;
  tessera::IntrusivePtr<detail::WeakBlock> block_;
};

// A value, or a reference to one that outlives it.
template <class T>
class MaybeOwned {
 public:
  static MaybeOwned borrowed(const T& t) { return MaybeOwned(&t, std::nullopt); }
  static MaybeOwned owned(T&& t) { return MaybeOwned(nullptr, std::move(t)); }
  const T& operator*() const { return borrowed_ ? *borrowed_ : *owned_; }
  const T* operator->() const { return &**this; }
  bool unsafeIsBorrowed() const { return borrowed_; }

 private:
  MaybeOwned(const T* b, std::optional<T> o) : borrowed_(b), owned_(std::move(o)) {}
  const T* borrowed_;
  std::optional<T> owned_;
};

}  // namespace c10
