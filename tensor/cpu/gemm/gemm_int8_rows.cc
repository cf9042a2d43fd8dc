// Few rows of bytes times a matrix whose columns are contiguous: nothing is packed, since packing would take longer
// than the product. Each sum is a dot product of two lines of memory.
#include <immintrin.h>

#include <algorithm>

#include "tensor/core/parallel.h"
#include "tensor/cpu/gemm/gemm_int8.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")

namespace tessera::cpu::internal {
namespace {

constexpr int kColumns = 4;  // side by side, with as many rows: 16 sums in registers

struct Lines {
  const uint8_t* a;
  const int8_t* b;
  int64_t a_row, b_column, k;
};

// The sums over all lanes of four vectors.
__attribute__((always_inline)) inline __m128i totals(const __m512i* s) {
  const auto pair = [](__m512i x, __m512i y) __attribute__((always_inline)) {
    return _mm512_add_epi32(_mm512_unpacklo_epi32(x, y), _mm512_unpackhi_epi32(x, y));
  };
  const __m512i low = pair(s[0], s[1]), high = pair(s[2], s[3]);
  const __m512i all = _mm512_add_epi32(_mm512_unpacklo_epi64(low, high), _mm512_unpackhi_epi64(low, high));
  const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
  return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

// kRows rows times kColumns columns, of which those from `columns` on repeat the last.
template <int kRows>
void dots(const Lines& l, int64_t columns, int32_t* sums) {
  __m512i s[kRows][kColumns] = {};
  const int8_t* b[kColumns];
#pragma GCC unroll 4
  for (int64_t c = 0; c < kColumns; ++c) b[c] = l.b + std::min(c, columns - 1) * l.b_column;
  for (int64_t p = 0; p < l.k; p += 64) {
    const __mmask64 mask = l.k - p >= 64 ? ~uint64_t{0} : (uint64_t{1} << (l.k - p)) - 1;
    __m512i x[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) x[r] = _mm512_maskz_loadu_epi8(mask, l.a + r * l.a_row + p);
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      const __m512i y = _mm512_maskz_loadu_epi8(mask, b[c] + p);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) s[r][c] = _mm512_dpbusd_epi32(s[r][c], x[r], y);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) _mm_storeu_si128(reinterpret_cast<__m128i*>(sums + r * kPanelLines), totals(s[r]));
}

void rows_of_dots(Lines l, int64_t rows, int64_t columns, int32_t* sums) {
  for (; rows > 0; rows -= 4, l.a += 4 * l.a_row, sums += 4 * kPanelLines) switch (rows) {
      case 1:
        dots<1>(l, columns, sums);
        break;
      case 2:
        dots<2>(l, columns, sums);
        break;
      case 3:
        dots<3>(l, columns, sums);
        break;
      default:
        dots<4>(l, columns, sums);
    }
}

}  // namespace
#pragma GCC pop_options

bool int8_rows(const Int8Sums& g) {
  if (g.m > kInt8Rows || !g.unsigned_a || g.pack_a || g.a.col_stride != 1 || g.b.row_stride != 1) return false;
  const int64_t blocks = (g.n + kPanelLines - 1) / kPanelLines;
  const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 18) / (g.m * g.k * kPanelLines));
  parallel_for(blocks, grain, [&](int64_t begin, int64_t end) {
    alignas(64) int32_t sums[kInt8Rows * kPanelLines];
    for (int64_t j = begin * kPanelLines; j < std::min(end * kPanelLines, g.n); j += kPanelLines) {
      const int64_t columns = std::min<int64_t>(kPanelLines, g.n - j);
      for (int64_t c = 0; c < columns; c += kColumns)
        rows_of_dots(
            {static_cast<const uint8_t*>(g.a.data), static_cast<const int8_t*>(g.b.data) + (j + c) * g.b.col_stride,
             g.a.row_stride, g.b.col_stride, g.k},
            g.m, columns - c, sums + c);
      g.write(g.context, 0, j, g.m, columns, sums);
    }
  });
  return true;
}

}  // namespace tessera::cpu::internal
