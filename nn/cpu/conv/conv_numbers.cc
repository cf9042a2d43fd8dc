#include "nn/cpu/conv/conv_numbers.h"

#include <cstring>

#include "tensor/core/half.h"
#include "tensor/cpu/pointwise/convert.h"

namespace tessera::cpu::internal {

void Numbers::read(int64_t n, float* to) const {
  if (is_float())
    std::memcpy(to, at_, static_cast<size_t>(n) * sizeof(float));
  else
    (dtype_ == DType::kBFloat16 ? bfloat16_to_float : half_to_float)(to, bits(), n);
}

void Numbers::write(int64_t n, const float* from) const {
  if (is_float())
    std::memcpy(at_, from, static_cast<size_t>(n) * sizeof(float));
  else
    (dtype_ == DType::kBFloat16 ? float_to_bfloat16 : float_to_half)(bits(), from, n, Store::kCached);
}

float Numbers::get(int64_t i) const {
  if (is_float()) return floats()[i];
  return dtype_ == DType::kBFloat16 ? bfloat16_bits_to_float(bits()[i]) : half_bits_to_float(bits()[i]);
}

void Numbers::put(int64_t i, float v) const {
  if (is_float())
    floats()[i] = v;
  else
    bits()[i] = dtype_ == DType::kBFloat16 ? float_to_bfloat16_bits(v) : float_to_half_bits(v);
}

}  // namespace tessera::cpu::internal
