#include "tensor/cpu/support/simd_move.h"

#include <algorithm>
#include <cstring>

#include "tensor/core/visit.h"
#include "tensor/cpu/support/request.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/support/simd_move.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/cpu/support/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D32 = hn::ScalableTag<uint32_t>;
using V32 = hn::Vec<D32>;
using D64 = hn::ScalableTag<uint64_t>;
using V64 = hn::Vec<D64>;

// bytes that repeat a pattern of 16 bytes.
void FillPattern(void* dst, const void* pattern, int64_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto v = hn::LoadDup128(d, static_cast<const uint8_t*>(pattern));
  uint8_t* to = static_cast<uint8_t*>(dst);
  int64_t i = 0;
  for (; i + lanes <= bytes; i += lanes) hn::StoreU(v, d, to + i);
  for (; i + 16 <= bytes; i += 16) std::memcpy(to + i, pattern, 16);
  if (i < bytes) std::memcpy(to + i, pattern, static_cast<size_t>(bytes - i));
}

// Bytes up to the next line.
int64_t BytesToLine(const void* p, int64_t bytes) {
  return std::min<int64_t>(bytes, static_cast<int64_t>(-reinterpret_cast<uintptr_t>(p) & 63));
}

void StreamCopy(void* dst, const void* src, int64_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  uint8_t* to = static_cast<uint8_t*>(dst);
  const uint8_t* from = static_cast<const uint8_t*>(src);
  int64_t i = BytesToLine(dst, bytes);
  std::memcpy(to, from, static_cast<size_t>(i));
  for (; i + 64 <= bytes; i += 64) {
    request_ahead(from + i);
    for (int64_t k = 0; k < 64; k += lanes) hn::Stream(hn::LoadU(d, from + i + k), d, to + i + k);
  }
  std::memcpy(to + i, from + i, static_cast<size_t>(bytes - i));
}

void StreamFill(void* dst, const void* pattern, int64_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  uint8_t* to = static_cast<uint8_t*>(dst);
  int64_t i = BytesToLine(dst, bytes);
  FillPattern(to, pattern, i);
  alignas(16) uint8_t turned[16];  // the pattern from there on
  for (int64_t k = 0; k < 16; ++k) turned[k] = static_cast<const uint8_t*>(pattern)[(i + k) & 15];
  const auto v = hn::LoadDup128(d, turned);
  for (; i + 64 <= bytes; i += 64) {
    for (int64_t k = 0; k < 64; k += lanes) hn::Stream(v, d, to + i + k);
  }
  FillPattern(to + i, turned, bytes - i);
}

template <class T>
void FillRowsOf(void* dst, const void* value, int64_t step, int64_t rows, int64_t n) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const char* from = static_cast<const char*>(value);
  T* to = static_cast<T*>(dst);
  for (int64_t r = 0; r < rows; ++r, from += step, to += n) {
    T x;
    std::memcpy(&x, from, sizeof(T));
    const auto v = hn::Set(d, x);
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) hn::StoreU(v, d, to + i);
    if (i < n && n - i + lanes <= n * (rows - r))
      hn::StoreU(v, d, to + i);  // the next row overwrites what is too much
    else
      for (; i < n; ++i) to[i] = x;
  }
}
void FillRows4(void* dst, const void* value, int64_t step, int64_t rows, int64_t n) {
  FillRowsOf<uint32_t>(dst, value, step, rows, n);
}
void FillRows8(void* dst, const void* value, int64_t step, int64_t rows, int64_t n) {
  FillRowsOf<uint64_t>(dst, value, step, rows, n);
}

// Tiles of 64 bytes, of smaller ones.
template <class D>
HWY_INLINE void TransposeTiles(D d, char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t tiles) {
  using T = hn::TFromD<D>;
  constexpr int kSize = sizeof(T), kEdge = 64 / kSize, kLanes = static_cast<int>(hn::MaxLanes(d));
  for (; tiles > 0; --tiles, dst += 64, src += kEdge * src_stride)
    for (int i = 0; i < kEdge; i += kLanes)
      for (int j = 0; j < kEdge; j += kLanes)
        transpose_tile(d, src + i * src_stride + j * kSize, src_stride, [&](int column, auto v) HWY_ATTR {
          hn::StoreU(v, d, reinterpret_cast<T*>(dst + (j + column) * dst_stride + i * kSize));
        });
}
void TransposeTiles4(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t tiles) {
  TransposeTiles(D32(), dst, dst_stride, src, src_stride, tiles);
}
void TransposeTiles8(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t tiles) {
  TransposeTiles(D64(), dst, dst_stride, src, src_stride, tiles);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {

TESSERA_SIMD_TABLE(FillPattern);
TESSERA_SIMD_TABLE(StreamCopy);
TESSERA_SIMD_TABLE(StreamFill);
TESSERA_SIMD_TABLE(FillRows4);
TESSERA_SIMD_TABLE(FillRows8);
TESSERA_SIMD_TABLE(TransposeTiles4);
TESSERA_SIMD_TABLE(TransposeTiles8);

namespace {
template <class T>
void repeat(char* pattern, const void* value) {
  for (size_t i = 0; i < 16; i += sizeof(T)) std::memcpy(pattern + i, value, sizeof(T));
}

void make_pattern(char* pattern, const void* value, int64_t size) {
  visit_size(size, [&](auto tag) { repeat<typename decltype(tag)::type>(pattern, value); });
}
}  // namespace

void fill_elements(void* dst, const void* value, int64_t n, int64_t size) {
  alignas(16) char pattern[16];
  make_pattern(pattern, value, size);
  TESSERA_SIMD(FillPattern)(dst, pattern, n * size);
}
void stream_fill(void* dst, const void* value, int64_t n, int64_t size) {
  alignas(16) char pattern[16];
  make_pattern(pattern, value, size);
  TESSERA_SIMD(StreamFill)(dst, pattern, n * size);
}
void stream_copy(void* dst, const void* src, int64_t bytes) { TESSERA_SIMD(StreamCopy)(dst, src, bytes); }
void stream_fence() { __builtin_ia32_sfence(); }
void fill_rows(void* dst, const void* value, int64_t step, int64_t rows, int64_t n, int64_t size) {
  if (size == 4) return TESSERA_SIMD(FillRows4)(dst, value, step, rows, n);
  if (size == 8) return TESSERA_SIMD(FillRows8)(dst, value, step, rows, n);
  for (int64_t r = 0; r < rows; ++r)
    fill_elements(static_cast<char*>(dst) + r * n * size, static_cast<const char*>(value) + r * step, n, size);
}
void transpose_tiles4(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t tiles) {
  TESSERA_SIMD(TransposeTiles4)(dst, dst_stride, src, src_stride, tiles);
}
void transpose_tiles8(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t tiles) {
  TESSERA_SIMD(TransposeTiles8)(dst, dst_stride, src, src_stride, tiles);
}
// Elements as wide as the vectors of every machine.
void transpose_tiles16(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t tiles) {
  using Element [[gnu::vector_size(16)]] = double;
  for (; tiles > 0; --tiles, dst += 64, src += 4 * src_stride) {
#pragma GCC unroll 4
    for (int64_t j = 0; j < 4; ++j) {
      char* const to = dst + j * dst_stride;
#pragma GCC unroll 4
      for (int64_t i = 0; i < 4; ++i) {
        Element x;
        std::memcpy(&x, src + i * src_stride + j * 16, 16);
        std::memcpy(to + i * 16, &x, 16);
      }
    }
  }
}

}  // namespace tessera::cpu
#endif
