#include "tensor/cpu/gemm/gemm_int8.h"

#include <immintrin.h>

#include <utility>

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq")

namespace tessera::cpu::internal {
namespace {

// The low bytes of sums: c = beta c + alpha sum.
void write_bytes(const void* context, int64_t i, int64_t j, int64_t rows, int64_t cols, const void* sums) {
  const Int8Problem& g = *static_cast<const Int8Problem*>(context);
  const uint8_t alpha = static_cast<uint8_t>(g.alpha), beta = static_cast<uint8_t>(g.beta);
  const int32_t* from = static_cast<const int32_t*>(sums);
  uint8_t* c = static_cast<uint8_t*>(g.c.data) + i * g.c.row_stride + j * g.c.col_stride;
  for (; rows > 0; --rows, from += kPanelLines, c += g.c.row_stride) {
    if (g.c.col_stride == 1 && alpha == 1 && beta == 0) {
      for (int64_t q = 0; q < cols; q += 16) {
        const __mmask16 mask = static_cast<__mmask16>(cols - q >= 16 ? 0xffff : (1 << (cols - q)) - 1);
        _mm_mask_storeu_epi8(c + q, mask, _mm512_cvtepi32_epi8(_mm512_loadu_si512(from + q)));
      }
      continue;
    }
    for (int64_t q = 0; q < cols; ++q) {
      uint8_t& to = c[q * g.c.col_stride];
      to = static_cast<uint8_t>((beta == 0 ? 0 : beta * to) + alpha * static_cast<uint8_t>(from[q]));
    }
  }
}

void write_words(const void* context, int64_t i, int64_t j, int64_t rows, int64_t cols, const void* sums) {
  const Int8Problem& g = *static_cast<const Int8Problem*>(context);
  const int32_t* from = static_cast<const int32_t*>(sums);
  int32_t* c = static_cast<int32_t*>(g.c.data) + i * g.c.row_stride + j * g.c.col_stride;
  // A C that no cache will hold is not read into one to be overwritten.
  const bool stream = cols == kPanelLines && g.c.col_stride == 1 && g.c.row_stride % 16 == 0 &&
                      reinterpret_cast<uintptr_t>(c) % 64 == 0 && g.m * g.n >= (1 << 20);
  for (; rows > 0; --rows, from += kPanelLines, c += g.c.row_stride) {
    if (stream)
      for (int64_t q = 0; q < kPanelLines; q += 16)
        _mm512_stream_si512(reinterpret_cast<__m512i*>(c + q), _mm512_loadu_si512(from + q));
    else if (g.c.col_stride == 1)
      __builtin_memcpy(c, from, static_cast<size_t>(4 * cols));
    else
      for (int64_t q = 0; q < cols; ++q) c[q * g.c.col_stride] = from[q];
  }
}

}  // namespace
#pragma GCC pop_options

bool gemm_int8(const Int8Problem& problem, PanelLevel level) {
  if (level == PanelLevel::kNone) return false;
  Int8Problem g = problem;
  if (!g.unsigned_a && g.c.col_stride != 1 && (g.c.row_stride == 1 || g.n == 1)) {  // C^T = B^T A^T
    const auto flip = [](MatrixRef x) { return MatrixRef{x.data, x.col_stride, x.row_stride}; };
    std::swap(g.m, g.n);
    std::swap(g.a, g.b);
    g.a = flip(g.a);
    g.b = flip(g.b);
    g.c = flip(g.c);
  }
  return int8_sums({g.m, g.n, g.k, g.unsigned_a, g.a, g.b, g.int32_c ? write_words : write_bytes, &g, nullptr}, level);
}

uint8_t int8_flip(bool unsigned_a, PanelLevel level) { return level == PanelLevel::kAvx512 && !unsigned_a ? 0x80 : 0; }

bool int8_sums(const Int8Sums& g, PanelLevel level) {
  if (level == PanelLevel::kNone) return false;
  if (int8_rows(g)) return true;
  panel_product({g.m, g.n, g.k, 1, g.a.data, g.a.row_stride, g.a.col_stride, g.b.data, g.b.row_stride, g.b.col_stride,
                 level, int8_panel_block(level, g.unsigned_a), int8_flip(g.unsigned_a, level), g.write, g.context,
                 g.pack_a});
  return true;
}

}  // namespace tessera::cpu::internal
