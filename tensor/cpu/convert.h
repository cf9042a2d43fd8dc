// float32 <-> 16-bit formats, contiguous. dst and src are disjoint. Bits equal those of tensor/core/half.h at every SIMD level.
#pragma once

#include <cstdint>

namespace tessera::cpu {

void half_to_float(float* dst, const uint16_t* src, int64_t n);
void float_to_half(uint16_t* dst, const float* src, int64_t n);
void bfloat16_to_float(float* dst, const uint16_t* src, int64_t n);
void float_to_bfloat16(uint16_t* dst, const float* src, int64_t n);

}  // namespace tessera::cpu
