// The kernels for AVX-512's dot products, on the panels of gemm_amx.h.
#include <immintrin.h>

#include "tensor/cpu/gemm/gemm_amx.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx512vnni")

namespace tessera::cpu::internal {
namespace {

constexpr int kRows = 8;  // of a register tile: 8 x 2 sums

// Two or four products added to each sum; a is broadcast.
struct Bf16Dot {
  using Sum = __m512;
  static Sum zero() { return _mm512_setzero_ps(); }
  static Sum load(const void* p) { return _mm512_loadu_ps(p); }
  static void store(void* p, Sum v) { _mm512_storeu_ps(p, v); }
  static Sum plus(Sum x, Sum y) { return _mm512_add_ps(x, y); }
  static Sum add(Sum acc, __m512i a, __m512i b) { return _mm512_dpbf16_ps(acc, (__m512bh)a, (__m512bh)b); }
};
struct Int8Dot {  // A holds uint8
  using Sum = __m512i;
  static Sum zero() { return _mm512_setzero_si512(); }
  static Sum load(const void* p) { return _mm512_loadu_si512(p); }
  static void store(void* p, Sum v) { _mm512_storeu_si512(p, v); }
  static Sum plus(Sum x, Sum y) { return _mm512_add_epi32(x, y); }
  static Sum add(Sum acc, __m512i a, __m512i b) { return _mm512_dpbusd_epi32(acc, a, b); }
};

inline __m512i broadcast(const char* p) {
  int32_t x;
  __builtin_memcpy(&x, p, 4);
  return _mm512_set1_epi32(x);
}

// Rows [0, kCount) of c; the sums start at start0 and start1, or go on from c.
template <class Dot, int kCount>
inline __attribute__((always_inline)) void rows_block(int64_t steps, const char* a, const char* b, char* c,
                                                      int64_t c_row, bool accumulate, typename Dot::Sum start0,
                                                      typename Dot::Sum start1) {
  typename Dot::Sum s0[kCount], s1[kCount];
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) {
    s0[r] = start0;
    s1[r] = start1;
  }
  for (int64_t p = 0; p < steps; ++p, a += kPanelStepBytes, b += kPanelStepBytes)
    for (int q = 0; q < 16; ++q) {
      const __m512i b0 = _mm512_load_si512(b + 64 * q), b1 = _mm512_load_si512(b + 1024 + 64 * q);
#pragma GCC unroll 8
      for (int r = 0; r < kCount; ++r) {
        const __m512i x = broadcast(a + 64 * r + 4 * q);
        s0[r] = Dot::add(s0[r], x, b0);
        s1[r] = Dot::add(s1[r], x, b1);
      }
    }
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) {
    char* const to = c + r * c_row;
    Dot::store(to, accumulate ? Dot::plus(s0[r], Dot::load(to)) : s0[r]);
    Dot::store(to + 64, accumulate ? Dot::plus(s1[r], Dot::load(to + 64)) : s1[r]);
  }
}

template <class Dot>
void all_rows(int64_t steps, const char* a, const char* b, int64_t rows, char* c, int64_t c_row, bool accumulate,
              typename Dot::Sum start0, typename Dot::Sum start1) {
  for (int64_t r = 0; r < rows; r += kRows) {
    const char* const from = a + r / 16 * 1024 + r % 16 * 64;
    if (rows - r > 4)
      rows_block<Dot, 8>(steps, from, b, c + r * c_row, c_row, accumulate, start0, start1);
    else if (rows - r > 1)
      rows_block<Dot, 4>(steps, from, b, c + r * c_row, c_row, accumulate, start0, start1);
    else
      rows_block<Dot, 1>(steps, from, b, c + r * c_row, c_row, accumulate, start0, start1);
  }
}

}  // namespace

void bf16_dot_block(int64_t steps, const void* a, const void* b, int64_t rows, int64_t, void* c, int64_t c_row,
                    bool accumulate) {
  const __m512 zero = _mm512_setzero_ps();
  all_rows<Bf16Dot>(steps, static_cast<const char*>(a), static_cast<const char*>(b), rows, static_cast<char*>(c),
                    4 * c_row, accumulate, zero, zero);
}

void uint8_dot_block(int64_t steps, const void* a, const void* b, int64_t rows, int64_t, void* c, int64_t c_row,
                     bool accumulate) {
  const __m512i zero = _mm512_setzero_si512();
  all_rows<Int8Dot>(steps, static_cast<const char*>(a), static_cast<const char*>(b), rows, static_cast<char*>(c),
                    4 * c_row, accumulate, zero, zero);
}

// (a + 128) b - 128 b: the second term is the same for all rows. Modulo 2^32 like the instruction.
void int8_dot_block(int64_t steps, const void* a, const void* b, int64_t rows, int64_t, void* c, int64_t c_row,
                    bool accumulate) {
  const __m512i zero = _mm512_setzero_si512(), offset = _mm512_set1_epi8(static_cast<char>(0x80));
  const auto below_zero = [&](const char* tile) {  // -128 b, for 16 columns
    __m512i sums[4] = {zero, zero, zero, zero};    // in turn: none waits for the one before
    for (int64_t p = 0; p < steps; ++p, tile += kPanelStepBytes)
#pragma GCC unroll 16
      for (int q = 0; q < 16; ++q)
        sums[q % 4] = _mm512_dpbusd_epi32(sums[q % 4], offset, _mm512_load_si512(tile + 64 * q));
    return _mm512_sub_epi32(zero,
                            _mm512_add_epi32(_mm512_add_epi32(sums[0], sums[1]), _mm512_add_epi32(sums[2], sums[3])));
  };
  const char* const from = static_cast<const char*>(b);
  all_rows<Int8Dot>(steps, static_cast<const char*>(a), from, rows, static_cast<char*>(c), 4 * c_row, accumulate,
                    below_zero(from), below_zero(from + 1024));
}

}  // namespace tessera::cpu::internal
#pragma GCC pop_options
