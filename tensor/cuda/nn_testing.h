// For tests that compare the kernels of a device with the CPU's on the same data, over dtypes chosen at run time.
#pragma once

#include <cmath>
#include <complex>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/core/dtype.h"
#include "tensor/core/half.h"
#include "tensor/cuda/runtime.h"

namespace tessera::cuda::testing {

template <class F>
void visit_type(DType t, F&& f) {
  switch (t) {
    case DType::kBool: return f(bool{});
    case DType::kUInt8: return f(uint8_t{});
    case DType::kInt8: return f(int8_t{});
    case DType::kInt16: return f(int16_t{});
    case DType::kInt32: return f(int32_t{});
    case DType::kInt64: return f(int64_t{});
    case DType::kUInt16: return f(uint16_t{});
    case DType::kUInt32: return f(uint32_t{});
    case DType::kUInt64: return f(uint64_t{});
    case DType::kFloat16: return f(Half{});
    case DType::kBFloat16: return f(BFloat16{});
    case DType::kFloat32: return f(float{});
    case DType::kFloat64: return f(double{});
    case DType::kComplex32: return f(ComplexHalf{});
    case DType::kComplex64: return f(std::complex<float>{});
    case DType::kComplex128: return f(std::complex<double>{});
    default: FAIL() << "no such test data";
  }
}

// n elements of a dtype in host memory.
struct Data {
  DType dtype;
  std::vector<char> bytes;
  Data(DType t, int64_t n, int fill = 0) : dtype(t), bytes(static_cast<size_t>(n * item_size(t)), static_cast<char>(fill)) {}
  int64_t size() const { return static_cast<int64_t>(bytes.size()) / item_size(dtype); }
  void* at(int64_t i) { return bytes.data() + i * item_size(dtype); }
  void* get() { return bytes.data(); }
  std::complex<double> value(int64_t i) const {
    std::complex<double> v;
    visit_type(dtype, [&](auto tag) {
      using T = decltype(tag);
      T x;
      std::memcpy(static_cast<void*>(&x), bytes.data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
      if constexpr (std::is_same_v<T, ComplexHalf>) v = static_cast<std::complex<double>>(static_cast<std::complex<float>>(x));
      else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) v = static_cast<std::complex<double>>(x);
      else v = static_cast<double>(x);
    });
    return v;
  }
  void set(int64_t i, double value) {
    visit_type(dtype, [&](auto tag) {
      using T = decltype(tag);
      T x;
      if constexpr (std::is_same_v<T, ComplexHalf>) x = ComplexHalf(std::complex<float>(static_cast<float>(value), 0));
      else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) x = T(static_cast<typename T::value_type>(value), 0);
      else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) x = static_cast<T>(static_cast<float>(value));
      else x = static_cast<T>(value);
      std::memcpy(bytes.data() + i * static_cast<int64_t>(sizeof(T)), static_cast<void*>(&x), sizeof(T));
    });
  }
};

// Floating numbers in [-1, 1), small integers, bool with few ones.
inline Data random_data(DType t, int64_t n, unsigned seed) {
  std::mt19937 rng(seed);
  Data d(t, n);
  const auto real = [&] { return std::uniform_real_distribution<float>(-1, 1)(rng); };
  for (int64_t i = 0; i < n; ++i)
    visit_type(t, [&](auto tag) {
      using T = decltype(tag);
      T x;
      if constexpr (std::is_same_v<T, bool>) x = rng() % 4 == 0;
      else if constexpr (std::is_integral_v<T>) x = static_cast<T>(rng() % 100);
      else if constexpr (std::is_same_v<T, ComplexHalf>) x = ComplexHalf(std::complex<float>(real(), real()));
      else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) x = T(real(), real());
      else x = static_cast<T>(real());
      std::memcpy(d.bytes.data() + i * static_cast<int64_t>(sizeof(T)), static_cast<void*>(&x), sizeof(T));
    });
  return d;
}

// A copy of host data on the device.
class OnDevice {
 public:
  explicit OnDevice(const Data& d) : dtype_(d.dtype), n_(d.size()), buffer_(d.bytes.size()) {
    if (n_ > 0) copy_to_device(buffer_.get(), d.bytes.data(), d.bytes.size());
  }
  void* get() const { return buffer_.get(); }
  void* at(int64_t i) const { return buffer_.as<char>() + i * item_size(dtype_); }
  Data read() const {
    Data d(dtype_, n_);
    if (n_ > 0) copy_to_host(d.bytes.data(), buffer_.get(), d.bytes.size());
    return d;
  }

 private:
  DType dtype_;
  int64_t n_;
  Buffer buffer_;
};

// The error of one rounding in a dtype, roughly.
inline double epsilon(DType t) {
  switch (t) {
    case DType::kFloat16:
    case DType::kComplex32: return 1e-3;
    case DType::kBFloat16: return 8e-3;
    case DType::kFloat32:
    case DType::kComplex64: return 2e-7;
    case DType::kFloat64:
    case DType::kComplex128: return 4e-16;
    default: return 0;
  }
}

// Equal, or near: |a - b| <= factor epsilon (1 + |b|); NaN where NaN is expected, the same infinities.
inline void expect_near(const Data& actual, const Data& expected, double factor, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  if (actual.bytes == expected.bytes) return;
  const auto near = [&](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= factor * epsilon(actual.dtype) * (1 + std::abs(b)); };
  for (int64_t i = 0; i < actual.size(); ++i) {
    const auto a = actual.value(i), b = expected.value(i);
    ASSERT_TRUE(near(a.real(), b.real()) && near(a.imag(), b.imag())) << what << " (" << name_of(actual.dtype) << "): element " << i << " is " << a << ", expected " << b;
  }
}

inline constexpr DType kFloatTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16};
inline constexpr DType kRealTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16, DType::kUInt8, DType::kInt8, DType::kInt16,
                                       DType::kInt32,   DType::kInt64,   DType::kUInt16,  DType::kUInt32,   DType::kUInt64};

}  // namespace tessera::cuda::testing
