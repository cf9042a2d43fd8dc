// For tests of matrix products and network kernels: typed arrays over testing.h.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tensor/cuda/support/testing.h"

namespace tessera::cuda::testing {

// n elements of a dtype in host memory.
struct Data {
  DType dtype;
  std::vector<uint8_t> bytes;
  Data(DType t, int64_t n, int fill = 0)
      : dtype(t), bytes(static_cast<size_t>(n * item_size(t)), static_cast<uint8_t>(fill)) {}
  Data(DType t, std::vector<uint8_t> elements) : dtype(t), bytes(std::move(elements)) {}
  int64_t size() const { return static_cast<int64_t>(bytes.size()) / item_size(dtype); }
  void* at(int64_t i) { return bytes.data() + i * item_size(dtype); }
  void* get() { return bytes.data(); }
  double value(int64_t i) const { return element(dtype, bytes.data(), i).real(); }
  void set(int64_t i, double value) { bytes = with_value(std::move(bytes), dtype, i, value); }
};

// Floating numbers in [-1, 1), small integers.
inline Data random_data(DType t, int64_t n, uint64_t seed) {
  return {t, is_floating_point(t) || is_complex(t) ? random_elements(t, n, seed, -1, 1)
                                                   : random_elements(t, n, seed, 0, 100)};
}

// A copy of host data on the device.
class OnDevice {
 public:
  explicit OnDevice(const Data& d) : dtype_(d.dtype), bytes_(d.bytes) {}
  void* get() const { return bytes_.get(); }
  void* at(int64_t i) const { return bytes_.as<char>() + i * item_size(dtype_); }
  Data read() const { return {dtype_, bytes_.read()}; }

 private:
  DType dtype_;
  DeviceBytes bytes_;
};

// The error of one rounding in a dtype, roughly.
inline double epsilon(DType t) {
  switch (t) {
    case DType::kFloat16:
    case DType::kComplex32:
      return 1e-3;
    case DType::kBFloat16:
      return 8e-3;
    case DType::kFloat32:
    case DType::kComplex64:
      return 2e-7;
    case DType::kFloat64:
    case DType::kComplex128:
      return 4e-16;
    default:
      return 0;
  }
}

// Apart by at most so many roundings of 1 and of the expected value.
inline void expect_near(const Data& actual, const Data& expected, double factor, const std::string& what) {
  const double tolerance = factor * epsilon(actual.dtype);
  expect_close(actual.dtype, expected.bytes, actual.bytes, tolerance, tolerance, what);
}

inline constexpr DType kFloatTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16};
inline constexpr DType kRealTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                                       DType::kUInt8,   DType::kInt8,    DType::kInt16,   DType::kInt32,
                                       DType::kInt64,   DType::kUInt16,  DType::kUInt32,  DType::kUInt64};

}  // namespace tessera::cuda::testing
