// What the tests of the operators share: small tensors, comparison of every element, errors, warnings, thread counts.
#pragma once

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <string>
#include <typeinfo>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/core/parallel.h"
#include "tensor/core/warning.h"
#include "tensor/ops/api.h"

namespace tessera {

inline constexpr const char* kOneMemory = "refer to a single memory location";
inline constexpr const char* kSelfOverlap = "more than one element of the written-to tensor refers to a single memory";

// A tensor of the dtype of T; without sizes one-dimensional.
template <class T>
Tensor of(std::initializer_list<T> v, IntVector sizes) {
  Tensor t = empty_kernel(sizes, DTypeOf<T>::value);
  EXPECT_EQ(t.numel(), static_cast<int64_t>(v.size()));
  std::copy(v.begin(), v.end(), t.data<T>());
  return t;
}
template <class T>
Tensor of(std::initializer_list<T> v) {
  return of<T>(v, IntVector{static_cast<int64_t>(v.size())});
}
template <class T>
Tensor number(T v) {
  return of<T>({v}, {});
}
// Without elements in memory.
inline Tensor meta(IntVector sizes, DType t = DType::kFloat32) {
  return empty_tensor(sizes, {}, t, Device(DeviceType::kMeta));
}
inline IntVector shape(const Tensor& t) { return to_vector(t.sizes()); }
inline IntVector strides(const Tensor& t) { return to_vector(t.strides()); }

// The elements in order of their indices.
template <class T>
std::vector<T> elements(const Tensor& t) {
  const Tensor c = contiguous(t);
  std::vector<T> r(static_cast<size_t>(c.numel()));
  if (c.numel()) std::memcpy(r.data(), c.data_ptr(), r.size() * sizeof(T));
  return r;
}

// Dtype, sizes and elements; nan is equal to nan. Numbers may be off by `tolerance`, relatively and absolutely.
template <class T>
void expect(const Tensor& t, std::initializer_list<T> wanted, IntVector sizes, double tolerance = 0) {
  ASSERT_EQ(t.dtype(), DTypeOf<T>::value) << name_of(t.dtype());
  ASSERT_EQ(shape(t), sizes);
  ASSERT_EQ(t.numel(), static_cast<int64_t>(wanted.size()));
  if (wanted.size() == 0) return;
  const Tensor c = contiguous(t);
  const T* got = c.data<T>();
  int64_t i = 0;
  for (const T& w : wanted) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(w))
        EXPECT_TRUE(std::isnan(got[i])) << "element " << i << ": " << got[i];
      else if (tolerance == 0 || std::isinf(w))
        EXPECT_EQ(got[i], w) << "element " << i;
      else
        EXPECT_NEAR(got[i], w, tolerance * (1 + std::fabs(w))) << "element " << i;
    } else {
      EXPECT_EQ(got[i], w) << "element " << i;
    }
    ++i;
  }
}
template <class T>
void expect(const Tensor& t, std::initializer_list<T> wanted) {
  expect<T>(t, wanted, IntVector{static_cast<int64_t>(wanted.size())});
}

// f throws exactly E, and the message has this text.
template <class E, class F>
void expect_error(F&& f, const std::string& text) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_TRUE(typeid(e) == typeid(E)) << typeid(e).name() << ": " << e.what();
    EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    return;
  }
  ADD_FAILURE() << "no error; expected: " << text;
}

// The warnings of its lifetime.
class Warnings {
 public:
  Warnings() {
    texts().clear();
    set_warning_handler([](const std::string& message, WarningKind) { texts().push_back(message); });
  }
  ~Warnings() { set_warning_handler(nullptr); }
  Warnings(const Warnings&) = delete;
  size_t count() const { return texts().size(); }
  bool has(const std::string& text) const {
    for (const std::string& t : texts())
      if (t.find(text) != std::string::npos) return true;
    return false;
  }

 private:
  static std::vector<std::string>& texts() {
    static std::vector<std::string> all;
    return all;
  }
};
inline constexpr const char* kResized = "An output with one or more elements was resized";

// What f returns has the same bits with one thread and with three.
template <class F>
void expect_same_bits(F&& f) {
  const int before = num_threads();
  std::vector<char> bytes[2];
  for (int k = 0; k < 2; ++k) {
    set_num_threads(k ? 3 : 1);
    const Tensor t = contiguous(f());
    const char* data = static_cast<const char*>(t.data_ptr());
    bytes[k].assign(data, data + t.nbytes());
  }
  set_num_threads(before);
  EXPECT_FALSE(bytes[0].empty());
  EXPECT_TRUE(bytes[0] == bytes[1]);
}

// float32 of either sign whose sums depend on the order of their terms.
inline Tensor rough(IntVector sizes) {
  Tensor t = empty_kernel(sizes, DType::kFloat32);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<float>()[i] = static_cast<float>(std::sin(1.7 * static_cast<double>(i)) * std::exp2(i % 19 - 9));
  return t;
}

}  // namespace tessera
