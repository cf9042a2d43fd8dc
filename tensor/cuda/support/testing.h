// For tests that compare an engine of a CUDA device with the CPU's: the same data in both memories, random data of any
// dtype, comparisons.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tensor/core/dtype.h"
#include "tensor/core/visit.h"
#include "tensor/cuda/runtime/runtime.h"
#include "tensor/cuda/runtime/streams.h"

namespace tessera::cuda::testing {

// Skips where there is no device. Each test begins with device 0 and its default stream, and without reports.
class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_count() == 0) GTEST_SKIP() << "no CUDA device";
    select_device(0);
    set_current_stream({0, nullptr});
  }
};

// Device memory with the bytes of a vector.
class DeviceBytes {
 public:
  explicit DeviceBytes(const std::vector<uint8_t>& bytes) : buffer_(bytes.size()), size_(bytes.size()) {
    copy_to_device(buffer_.get(), bytes.data(), size_);
  }
  explicit DeviceBytes(size_t n, int value = 0xEE) : buffer_(n), size_(n) { fill_bytes(buffer_.get(), value, n); }
  void* get() const { return buffer_.get(); }
  template <class T>
  T* as() const {
    return buffer_.as<T>();
  }
  size_t size() const { return size_; }
  // Waits for the device; raises what kernels reported.
  std::vector<uint8_t> read() const {
    std::vector<uint8_t> out(size_);
    copy_to_host(out.data(), buffer_.get(), size_);
    return out;
  }

 private:
  Buffer buffer_;
  size_t size_;
};

// The same bytes in host memory, for the CPU's engine, and in device memory.
class Mirror {
 public:
  explicit Mirror(std::vector<uint8_t> bytes) : host_(std::move(bytes)), device_(host_) {}
  template <class T>
  static Mirror of(const std::vector<T>& values) {
    std::vector<uint8_t> bytes(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return Mirror(std::move(bytes));
  }
  void* host() { return host_.data(); }
  void* device() const { return device_.get(); }
  template <class T>
  T* host_as() {
    return reinterpret_cast<T*>(host_.data());
  }
  template <class T>
  T* device_as() const {
    return device_.as<T>();
  }
  size_t size() const { return host_.size(); }
  const std::vector<uint8_t>& host_bytes() const { return host_; }
  std::vector<uint8_t> device_bytes() const { return device_.read(); }

 private:
  std::vector<uint8_t> host_;
  DeviceBytes device_;
};

// n elements between low and high; integers and bool are rounded into the dtype's range.
inline std::vector<uint8_t> random_elements(DType t, int64_t n, uint64_t seed, double low = -4, double high = 4) {
  std::vector<uint8_t> bytes(static_cast<size_t>(n * item_size(t)));
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> next(low, high);
  visit_dtype(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < n; ++i) {
      T v;
      const double d = next(generator);
      if constexpr (std::is_same_v<T, bool>)
        v = d > (low + high) / 2;
      else if constexpr (std::is_unsigned_v<T>)
        v = static_cast<T>(std::floor(std::fabs(d)));
      else if constexpr (std::is_integral_v<T>)
        v = static_cast<T>(std::floor(d));
      else if constexpr (std::is_same_v<T, std::complex<double>>)
        v = T(d, next(generator));
      else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, ComplexHalf>)
        v = T(std::complex<float>(static_cast<float>(d), static_cast<float>(next(generator))));
      else
        v = T(static_cast<float>(d));
      if constexpr (std::is_same_v<T, double>) v = d;
      std::memcpy(bytes.data() + i * static_cast<int64_t>(sizeof(T)), &v, sizeof v);
    }
  });
  return bytes;
}

// Element i as a complex number; 64-bit integers lose their low bits.
inline std::complex<double> element(DType t, const void* data, int64_t i) {
  return visit_dtype(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T v;
    std::memcpy(&v, static_cast<const char*>(data) + i * static_cast<int64_t>(sizeof(T)), sizeof v);
    if constexpr (std::is_same_v<T, std::complex<double>>)
      return v;
    else if constexpr (std::is_same_v<T, std::complex<float>>)
      return std::complex<double>(v);
    else if constexpr (std::is_same_v<T, ComplexHalf>)
      return std::complex<double>(std::complex<float>(v));
    else if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>)
      return std::complex<double>(static_cast<double>(v));
    else
      return std::complex<double>(static_cast<double>(static_cast<float>(v)));
  });
}

// The same bits, but any NaN for a NaN.
inline void expect_same(DType t, const std::vector<uint8_t>& expected, const std::vector<uint8_t>& actual,
                        const std::string& what = "") {
  ASSERT_EQ(expected.size(), actual.size()) << what;
  const int64_t size = item_size(t), n = static_cast<int64_t>(expected.size()) / size;
  int shown = 0;
  for (int64_t i = 0; i < n && shown < 5; ++i) {
    if (std::memcmp(expected.data() + i * size, actual.data() + i * size, static_cast<size_t>(size)) == 0) continue;
    const std::complex<double> e = element(t, expected.data(), i), a = element(t, actual.data(), i);
    const bool both_nan =
        (std::isnan(e.real()) || std::isnan(e.imag())) && (std::isnan(a.real()) || std::isnan(a.imag()));
    if (both_nan) continue;
    ++shown;
    ADD_FAILURE() << what << ": " << name_of(t) << " element " << i << " of " << n << ": expected " << e << ", got "
                  << a;
  }
}

// |expected - actual| <= atol + rtol * |expected|, infinities and NaN in the same places. Negative tolerances: some
// units of the dtype's precision.
inline void expect_close(DType t, const std::vector<uint8_t>& expected, const std::vector<uint8_t>& actual,
                         double rtol = -1, double atol = -1, const std::string& what = "") {
  ASSERT_EQ(expected.size(), actual.size()) << what;
  const DType real = is_complex(t) ? to_real(t) : t;
  const double unit = !is_floating_point(real)  ? 0
                      : real == DType::kFloat64 ? 1e-15
                      : real == DType::kFloat32 ? 6e-7
                      : real == DType::kFloat16 ? 1e-3
                      : is_float8(real)         ? 0.13
                                                : 8e-3;
  if (rtol < 0) rtol = 8 * unit;
  if (atol < 0) atol = 8 * unit;
  const int64_t n = static_cast<int64_t>(expected.size()) / item_size(t);
  const auto close = [&](double e, double a) {
    return e == a || (std::isnan(e) && std::isnan(a)) || std::fabs(e - a) <= atol + rtol * std::fabs(e);
  };
  int shown = 0;
  for (int64_t i = 0; i < n && shown < 5; ++i) {
    const std::complex<double> e = element(t, expected.data(), i), a = element(t, actual.data(), i);
    const bool nans = (std::isnan(e.real()) || std::isnan(e.imag())) && (std::isnan(a.real()) || std::isnan(a.imag()));
    if (nans || (close(e.real(), a.real()) && close(e.imag(), a.imag()))) continue;
    ++shown;
    ADD_FAILURE() << what << ": " << name_of(t) << " element " << i << " of " << n << ": expected " << e << ", got "
                  << a;
  }
}

// Strides in bytes of a dense row-major tensor.
inline std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape, int64_t item_size) {
  std::vector<int64_t> strides(shape.size());
  for (size_t i = shape.size(); i-- > 0; item_size *= shape[i]) strides[i] = item_size;
  return strides;
}

inline int64_t numel(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  return n;
}

inline std::vector<uint8_t> with_value(std::vector<uint8_t> bytes, DType t, int64_t i, double value) {
  visit_dtype(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T v;
    if constexpr (std::is_same_v<T, std::complex<double>>)
      v = T(value);
    else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, ComplexHalf>)
      v = T(std::complex<float>(static_cast<float>(value)));
    else if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>)
      v = static_cast<T>(value);
    else
      v = T(static_cast<float>(value));
    std::memcpy(bytes.data() + i * static_cast<int64_t>(sizeof(T)), &v, sizeof v);
  });
  return bytes;
}

}  // namespace tessera::cuda::testing
