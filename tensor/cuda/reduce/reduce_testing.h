// Strided arrays in host and device memory, for the tests of reductions, scans and softmax.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/cuda/support/testing.h"

namespace tessera::cuda::testing {

using cpu::Operand;

// A permuted, padded or broadcast view of a buffer.
class Array {
 public:
  Array(DType dtype, std::vector<int64_t> strides, std::vector<uint8_t> bytes)
      : dtype_(dtype), strides_(std::move(strides)), mirror_(std::move(bytes)) {}
  Operand host() const {
    return {const_cast<void*>(static_cast<const void*>(mirror_.host_bytes().data())), dtype_, strides_.data()};
  }
  Operand device() const { return {mirror_.device(), dtype_, strides_.data()}; }
  const std::vector<uint8_t>& host_bytes() const { return mirror_.host_bytes(); }
  std::vector<uint8_t> device_bytes() const { return mirror_.device_bytes(); }

 private:
  DType dtype_;
  std::vector<int64_t> strides_;
  Mirror mirror_;
};

// layout 0: dense; 1: random permutation; 2: permutation with gaps; 3: some dimensions broadcast. Elements below
// `range`; specials: some NaN and infinities.
inline Array make_array(DType dtype, const std::vector<int64_t>& shape, int layout, std::mt19937& rng, double range,
                        bool specials) {
  std::vector<size_t> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (layout > 0) std::shuffle(order.begin(), order.end(), rng);
  std::vector<int64_t> strides(shape.size());
  int64_t elements = 1;
  for (size_t i = order.size(); i-- > 0;) {
    if (layout == 2 && rng() % 2) elements *= 2;
    if (layout == 3 && rng() % 3 == 0) continue;
    strides[order[i]] = elements * item_size(dtype);
    elements *= std::max<int64_t>(1, shape[order[i]]);
  }
  std::vector<uint8_t> bytes = random_elements(dtype, elements, rng(), -range, range);
  if (specials && is_floating_point(dtype)) {
    for (int64_t i = rng() % 20; i < elements; i += 1 + rng() % 100) {
      bytes = with_value(std::move(bytes), dtype, i, rng() % 2 ? std::nan("") : rng() % 2 ? INFINITY : -INFINITY);
    }
  }
  return Array(dtype, std::move(strides), std::move(bytes));
}

// For results of a reduction of the dimensions in mask: stride 0 there.
inline Array make_result(DType dtype, const std::vector<int64_t>& shape, uint64_t mask, int layout, std::mt19937& rng) {
  std::vector<int64_t> kept = shape;
  for (size_t d = 0; d < shape.size(); ++d)
    if (mask >> d & 1) kept[d] = 1;
  const Array a = make_array(dtype, kept, layout, rng, 1, false);
  std::vector<int64_t> strides(a.host().strides, a.host().strides + shape.size());
  for (size_t d = 0; d < shape.size(); ++d)
    if (mask >> d & 1) strides[d] = 0;
  return Array(dtype, std::move(strides), a.host_bytes());
}

}  // namespace tessera::cuda::testing
