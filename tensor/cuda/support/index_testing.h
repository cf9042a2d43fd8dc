// Strided arrays on the host and on the device, for tests that compare the engines of both.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/cpu/support/operand.h"
#include "tensor/cuda/runtime/runtime.h"

namespace tessera::cuda::testing {

using cpu::Operand;
using Shape = std::vector<int64_t>;

struct Array {
  DType dtype;
  Shape shape, strides;
  std::vector<char> bytes;
  Operand operand() { return {bytes.data(), dtype, strides.data()}; }
  int64_t count() const { return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>()); }
};

// Dense, or with its dimensions in another order in memory and gaps between elements. Gaps hold noise, which nobody may
// change.
inline Array make(DType dtype, const Shape& shape, bool scattered, std::mt19937& rng) {
  Array a{dtype, shape, Shape(shape.size()), {}};
  std::vector<size_t> inside_out(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) inside_out[i] = shape.size() - 1 - i;
  if (scattered) std::shuffle(inside_out.begin(), inside_out.end(), rng);
  int64_t reach = item_size(dtype);
  for (size_t d : inside_out) {
    if (scattered && rng() % 3 == 0) reach += item_size(dtype);
    a.strides[d] = reach;
    reach *= std::max<int64_t>(1, shape[d]);
  }
  a.bytes.resize(reach);
  for (char& b : a.bytes) b = static_cast<char>(rng());
  return a;
}

// Elements value(i), i = 0, 1, ... in row-major order.
template <class F>
void fill(Array& a, F&& value) {
  std::vector<double> v(a.count());
  for (size_t i = 0; i < v.size(); ++i) v[i] = value(i);
  Shape dense(a.shape.size());
  int64_t step = 8;
  for (size_t d = dense.size(); d-- > 0; step *= a.shape[d]) dense[d] = step;
  if (!v.empty()) cpu::copy_strided(a.shape, a.operand(), {v.data(), DType::kFloat64, dense.data()});
}

// The same bytes on the device, and how to get them back.
class OnDevice {
 public:
  explicit OnDevice(const Array& a) : a_(a), memory_(a.bytes.size() + 16) {
    copy_to_device(memory_.get(), a.bytes.data(), a.bytes.size());
  }
  Operand operand() const { return {memory_.get(), a_.dtype, a_.strides.data()}; }
  template <class T>
  T* as() const {
    return memory_.as<T>();
  }
  std::vector<char> bytes() const {
    std::vector<char> b(a_.bytes.size());
    copy_to_host(b.data(), memory_.get(), b.size());
    return b;
  }

 private:
  const Array& a_;
  Buffer memory_;
};

inline const std::vector<DType> kAll = {DType::kBool,    DType::kUInt8,     DType::kInt8,      DType::kInt16,
                                        DType::kInt32,   DType::kInt64,     DType::kUInt16,    DType::kUInt32,
                                        DType::kUInt64,  DType::kFloat16,   DType::kBFloat16,  DType::kFloat32,
                                        DType::kFloat64, DType::kComplex32, DType::kComplex64, DType::kComplex128};

class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_count() == 0) GTEST_SKIP() << "no CUDA device";
  }
  std::mt19937 rng{1};
};

}  // namespace tessera::cuda::testing
