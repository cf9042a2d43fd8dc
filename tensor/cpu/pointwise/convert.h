// Contiguous conversions that have kernels of their own. dst and src are disjoint.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

enum class Store : uint8_t { kCached, kStream };  // kStream: past the caches where dst begins a line; see stream_copy

// float32 <-> 16-bit formats. Bits equal those of tensor/core/half.h at every SIMD level.
void half_to_float(float* dst, const uint16_t* src, int64_t n);
void float_to_half(uint16_t* dst, const float* src, int64_t n, Store how = Store::kCached);
void bfloat16_to_float(float* dst, const uint16_t* src, int64_t n);
void float_to_bfloat16(uint16_t* dst, const float* src, int64_t n, Store how = Store::kCached);

// Only AVX-512 has instructions for these.
void float_to_int64(void* dst, const void* src, int64_t n);
void double_to_int64(void* dst, const void* src, int64_t n);
void int64_to_float(void* dst, const void* src, int64_t n);
void int64_to_double(void* dst, const void* src, int64_t n);

// convert (tensor/cpu/pointwise/pointwise.h) past the caches; see stream_copy.
void convert_stream(DType to, void* dst, DType from, const void* src, int64_t n);

}  // namespace tessera::cpu
