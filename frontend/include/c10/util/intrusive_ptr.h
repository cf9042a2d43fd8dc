// Counted pointers, and MaybeOwned.
#pragma once

#include <atomic>
#include <optional>
#include <utility>

#include "c10/util/Exception.h"
#include "tensor/core/intrusive.h"

namespace c10 {

class intrusive_ptr_target : public tessera::RefCounted {
 public:
  intrusive_ptr_target() = default;
  intrusive_ptr_target(const intrusive_ptr_target&) : tessera::RefCounted() {}

 protected:
  virtual void release_resources() {}
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
