// D numbers, one for each dimension; a single number stands for all of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <vector>

#include <ATen/ATen.h>

namespace torch {

template <size_t D, class T = int64_t>
class ExpandingArray {
 public:
  ExpandingArray(std::initializer_list<T> list) { take(list.begin(), list.size()); }
  ExpandingArray(const std::vector<T>& list) { take(list.data(), list.size()); }
  ExpandingArray(at::ArrayRef<T> list) { take(list.data(), list.size()); }
  ExpandingArray(T one) { values_.fill(one); }
  ExpandingArray(const std::array<T, D>& values) : values_(values) {}

  std::array<T, D>& operator*() { return values_; }
  const std::array<T, D>& operator*() const { return values_; }
  std::array<T, D>* operator->() { return &values_; }
  const std::array<T, D>* operator->() const { return &values_; }
  operator at::ArrayRef<T>() const { return at::ArrayRef<T>(values_.data(), D); }
  size_t size() const noexcept { return D; }
  std::vector<T> vec() const { return {values_.begin(), values_.end()}; }

 protected:
  std::array<T, D> values_{};

 private:
  template <class P>
  void take(P p, size_t n) {
    TORCH_CHECK(n == D, "Expected ", D, " values, but instead got ", n);
    std::copy_n(p, D, values_.begin());
  }
};

template <size_t D, class T>
std::ostream& operator<<(std::ostream& s, const ExpandingArray<D, T>& a) {
  if (D == 1) return s << (*a)[0];
  s << '[';
  for (size_t i = 0; i < D; ++i) s << (i ? ", " : "") << (*a)[i];
  return s << ']';
}

// The same where a dimension may be left open.
template <size_t D, class T = int64_t>
class ExpandingArrayWithOptionalElem : public ExpandingArray<D, std::optional<T>> {
  using Base = ExpandingArray<D, std::optional<T>>;

 public:
  using Base::Base;
  ExpandingArrayWithOptionalElem(std::initializer_list<T> list)
      : Base(std::vector<std::optional<T>>(list.begin(), list.end())) {}
  ExpandingArrayWithOptionalElem(at::ArrayRef<T> list)
      : Base(std::vector<std::optional<T>>(list.begin(), list.end())) {}
  ExpandingArrayWithOptionalElem(const std::vector<T>& list)
      : Base(std::vector<std::optional<T>>(list.begin(), list.end())) {}
  ExpandingArrayWithOptionalElem(T one) : Base(std::optional<T>(one)) {}
};

template <size_t D, class T>
std::ostream& operator<<(std::ostream& s, const ExpandingArrayWithOptionalElem<D, T>& a) {
  s << '[';
  for (size_t i = 0; i < D; ++i) {
    s << (i ? ", " : "");
    (*a)[i] ? s << *(*a)[i] : s << "None";
  }
  return s << ']';
}

}  // namespace torch
