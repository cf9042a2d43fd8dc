// Views of other people's arrays: a pointer and a length. What they point to must outlive them.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <ostream>
#include <span>
#include <vector>

#include "c10/core/SymInt.h"
#include "c10/util/Exception.h"

namespace c10 {

template <class T>
class ArrayRef {
 public:
  using value_type = T;
  using size_type = size_t;
  using iterator = const T*;
  using const_iterator = const T*;
  using reverse_iterator = std::reverse_iterator<iterator>;

  constexpr ArrayRef() = default;
  constexpr ArrayRef(const T& one) : data_(&one), size_(1) {}
  constexpr ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  constexpr ArrayRef(const T* begin, const T* end) : data_(begin), size_(static_cast<size_t>(end - begin)) {}
  // Whatever has data() and size(): vectors, arrays, spans, small vectors.
  template <class C>
  requires(!std::is_same_v<std::remove_cvref_t<C>, ArrayRef> &&
           requires(const C& c) {
             { c.data() } -> std::convertible_to<const T*>;
             { c.size() } -> std::convertible_to<size_t>;
             requires std::is_same_v<std::remove_cvref_t<decltype(*c.data())>, T>;
           }) constexpr ArrayRef(const C& c)
      : data_(c.data()), size_(static_cast<size_t>(c.size())) {}
  // Sizes in the other of their two forms.
  template <class C>
  requires requires(const C& c) {
    requires SymInt::is_other_form<std::remove_cvref_t<decltype(*c.data())>, T>;
    c.size();
  }
  ArrayRef(const C& c) : data_(reinterpret_cast<const T*>(c.data())), size_(static_cast<size_t>(c.size())) {}
  template <size_t N>
  constexpr ArrayRef(const T (&a)[N]) : data_(a), size_(N) {}
  constexpr ArrayRef(const std::initializer_list<T>& l)
      : data_(l.begin() == l.end() ? nullptr : l.begin()), size_(l.size()) {}

  constexpr iterator begin() const { return data_; }
  constexpr iterator end() const { return data_ + size_; }
  constexpr const_iterator cbegin() const { return data_; }
  constexpr const_iterator cend() const { return data_ + size_; }
  constexpr reverse_iterator rbegin() const { return reverse_iterator(end()); }
  constexpr reverse_iterator rend() const { return reverse_iterator(begin()); }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  const T& front() const {
    TORCH_CHECK(size_ > 0, "ArrayRef: attempted to access front() of empty list");
    return data_[0];
  }
  const T& back() const {
    TORCH_CHECK(size_ > 0, "ArrayRef: attempted to access back() of empty list");
    return data_[size_ - 1];
  }
  constexpr bool equals(ArrayRef o) const { return std::equal(begin(), end(), o.begin(), o.end()); }
  // The m elements from n on; the rest without m.
  ArrayRef slice(size_t n, size_t m) const {
    TORCH_CHECK(n + m <= size_, "ArrayRef: invalid slice, N = ", n, "; M = ", m, "; size = ", size_);
    return ArrayRef(data_ + n, m);
  }
  ArrayRef slice(size_t n) const {
    TORCH_CHECK(n <= size_, "ArrayRef: invalid slice, N = ", n, "; size = ", size_);
    return ArrayRef(data_ + n, size_ - n);
  }
  ArrayRef take_front(size_t n = 1) const { return n >= size_ ? *this : slice(0, n); }
  ArrayRef take_back(size_t n = 1) const { return n >= size_ ? *this : slice(size_ - n); }
  template <class F>
  bool allMatch(const F& f) const {
    for (const T& x : *this)
      if (!f(x)) return false;
    return true;
  }
  constexpr const T& operator[](size_t i) const { return data_[i]; }
  const T& at(size_t i) const {
    TORCH_CHECK(i < size_, "ArrayRef: invalid index Index = ", i, "; Length = ", size_);
    return data_[i];
  }
  std::vector<T> vec() const { return std::vector<T>(begin(), end()); }
  template <class U>
  requires std::is_same_v<U, T> ArrayRef& operator=(U&& temporary) = delete;
  template <class U>
  requires std::is_same_v<U, T> ArrayRef& operator=(std::initializer_list<U>) = delete;

  friend bool operator==(ArrayRef a, ArrayRef b) { return a.equals(b); }
  friend bool operator==(ArrayRef a, const std::vector<T>& b) { return a.equals(b); }
  friend std::ostream& operator<<(std::ostream& out, ArrayRef l) {
    out << '[';
    for (size_t i = 0; i < l.size(); ++i) {
      if (i) out << ", ";
      out << l[i];
    }
    return out << ']';
  }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};

template <class T>
ArrayRef<T> makeArrayRef(const T& one) {
  return one;
}
template <class T>
ArrayRef<T> makeArrayRef(const T* data, size_t size) {
  return {data, size};
}
template <class T>
ArrayRef<T> makeArrayRef(const std::vector<T>& v) {
  return v;
}
template <class T, size_t N>
ArrayRef<T> makeArrayRef(const T (&a)[N]) {
  return a;
}

// An ArrayRef or nothing.
template <class T>
class OptionalArrayRef {
 public:
  using value_type = ArrayRef<T>;
  constexpr OptionalArrayRef() = default;
  constexpr OptionalArrayRef(std::nullopt_t) {}
  constexpr OptionalArrayRef(const std::optional<ArrayRef<T>>& o) : list_(o) {}
  constexpr OptionalArrayRef(ArrayRef<T> l) : list_(l) {}
  constexpr OptionalArrayRef(const T& one) : list_(ArrayRef<T>(one)) {}
  constexpr OptionalArrayRef(const std::initializer_list<T>& l) : list_(ArrayRef<T>(l)) {}
  template <class C>
  requires(!std::is_same_v<C, ArrayRef<T>> && std::is_constructible_v<ArrayRef<T>, const C&> &&
           requires(const C& c) { c.data(); }) constexpr OptionalArrayRef(const C& c)
      : list_(ArrayRef<T>(c)) {}
  OptionalArrayRef(const std::optional<std::vector<T>>& v) {
    if (v) list_ = ArrayRef<T>(*v);
  }
  template <class U>
  requires SymInt::is_other_form<U, T> OptionalArrayRef(const OptionalArrayRef<U>& o) {
    if (o) list_ = ArrayRef<T>(*o);
  }
  constexpr bool has_value() const { return list_.has_value(); }
  constexpr explicit operator bool() const { return has_value(); }
  constexpr const ArrayRef<T>& value() const { return list_.value(); }
  constexpr const ArrayRef<T>& operator*() const { return *list_; }
  constexpr const ArrayRef<T>* operator->() const { return &*list_; }
  constexpr ArrayRef<T> value_or(ArrayRef<T> other) const { return list_.value_or(other); }
  constexpr operator std::optional<ArrayRef<T>>() const { return list_; }
  friend bool operator==(const OptionalArrayRef& a, const OptionalArrayRef& b) { return a.list_ == b.list_; }

 private:
  std::optional<ArrayRef<T>> list_;
};

using IntArrayRef = ArrayRef<int64_t>;
using OptionalIntArrayRef = OptionalArrayRef<int64_t>;
using SymIntArrayRef = ArrayRef<SymInt>;
using OptionalSymIntArrayRef = OptionalArrayRef<SymInt>;

// Lists of sizes as numbers, and back: here they are the same bytes.
inline IntArrayRef asIntArrayRefUnchecked(SymIntArrayRef l) { return l; }
inline IntArrayRef asIntArrayRefSlow(SymIntArrayRef l, const char* = "", int64_t = 0) { return l; }
inline std::optional<IntArrayRef> asIntArrayRefSlowOpt(SymIntArrayRef l) { return l; }
inline SymIntArrayRef fromIntArrayRefSlow(IntArrayRef l) { return l; }
inline SymIntArrayRef fromIntArrayRefUnchecked(IntArrayRef l) { return l; }
inline SymIntArrayRef fromIntArrayRefKnownNonNegative(IntArrayRef l) { return l; }
#define C10_AS_INTARRAYREF_SLOW(l) ::c10::asIntArrayRefSlow(l, __FILE__, __LINE__)

using std::nullopt;
using std::nullopt_t;
using std::optional;
using std::string_view;
template <class T>
constexpr std::optional<std::decay_t<T>> make_optional(T&& v) {
  return std::make_optional(std::forward<T>(v));
}

}  // namespace c10

// As LibTorch shows vectors in a stream: with blanks between the elements.
namespace std {
template <class T>
requires requires(ostream& out, const T& t) { out << t; }
ostream& operator<<(ostream& out, const vector<T>& v) {
  bool first = true;
  for (const auto& x : v) {
    if (!first) out << ' ';
    out << x;
    first = false;
  }
  return out;
}
}  // namespace std
