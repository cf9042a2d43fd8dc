#include "tensor/cpu/gemm_bf16.h"

#include <immintrin.h>

#include <utility>

#include "tensor/core/half.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/scratch.h"

namespace tessera::cpu::internal {

// gemm_bf16_vector.cc: one row (m == 1) against a B that is contiguous along its rows or along k.
void bf16_row_product(const Bf16Problem& g);

namespace {

MatrixRef flipped(MatrixRef x) { return {x.data, x.col_stride, x.row_stride}; }
Bf16Problem transposed(const Bf16Problem& g) {
  Bf16Problem t = g;
  std::swap(t.m, t.n);
  t.a = flipped(g.b);
  t.b = flipped(g.a);
  t.c = flipped(g.c);
  return t;
}

// ---- Tiny products ----

constexpr int64_t kTinyElements = 256;  // of an operand

void copy_tiny(const MatrixRef& x, int64_t rows, int64_t cols, float* to) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) *to++ = static_cast<const BFloat16*>(x.data)[i * x.row_stride + j * x.col_stride];
}
void gemm_tiny(const Bf16Problem& g) {
  float a[kTinyElements], b[kTinyElements];
  copy_tiny(g.a, g.m, g.k, a);
  copy_tiny(g.b, g.k, g.n, b);
  for (int64_t i = 0; i < g.m; ++i)
    for (int64_t j = 0; j < g.n; ++j) {
      float sum = 0;
      for (int64_t p = 0; p < g.k; ++p) sum += a[i * g.k + p] * b[p * g.n + j];
      const int64_t at = i * g.c.row_stride + j * g.c.col_stride;
      if (g.float_c) {
        float& c = static_cast<float*>(g.c.data)[at];
        c = g.beta == 0 ? g.alpha * sum : g.beta * c + g.alpha * sum;
      } else {
        BFloat16& c = static_cast<BFloat16*>(g.c.data)[at];
        c = g.beta == 0 ? g.alpha * sum : g.beta * c + g.alpha * sum;
      }
    }
}

// ---- Blocks of sums to C ----

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")

inline __mmask16 lane_mask(int64_t n) { return static_cast<__mmask16>(n >= 16 ? 0xffff : n <= 0 ? 0 : (1 << n) - 1); }

inline __m512 load_bf16(__mmask16 mask, const uint16_t* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, p)), 16));
}

// A C that no cache will hold is not read into one to be overwritten.
constexpr int64_t kStreamBytes = 4 << 20;
// A C that L2 will not hold is fetched a block ahead.
constexpr int64_t kFetchBytes = 1 << 20;
bool streams(const Bf16Problem& g, const void* c, int64_t item) {
  return g.beta == 0 && ((reinterpret_cast<uintptr_t>(c) | static_cast<uintptr_t>(g.c.row_stride * item)) & 63) == 0 && g.m * g.n * item >= kStreamBytes;
}

void write_bf16_rows(const Bf16Problem& g, uint16_t* c, int64_t rows, int64_t cols, const float* from) {
  const bool stream = cols == 32 && streams(g, c, 2);
  const __mmask16 m0 = lane_mask(cols), m1 = lane_mask(cols - 16);
  const __mmask32 both = static_cast<__mmask32>(m0) | static_cast<__mmask32>(m1) << 16;
  const __m512 alpha = _mm512_set1_ps(g.alpha), beta = _mm512_set1_ps(g.beta);
  const bool scaled = g.alpha != 1 || g.beta != 0, ahead = !stream && g.m * g.n * 2 >= kFetchBytes;
  if (!scaled && !stream && cols == kPanelLines) {
    for (; rows > 0; --rows, from += kPanelLines, c += g.c.row_stride) {
      if (ahead) __builtin_prefetch(c + kPanelLines, 1);
      _mm512_storeu_si512(c, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + 16), _mm512_loadu_ps(from)));
    }
    return;
  }
  for (; rows > 0; --rows, from += kPanelLines, c += g.c.row_stride) {
    __m512 x = _mm512_loadu_ps(from), y = _mm512_loadu_ps(from + 16);
    if (ahead) __builtin_prefetch(c + kPanelLines, 1);
    if (scaled) {
      x = _mm512_mul_ps(x, alpha);
      y = _mm512_mul_ps(y, alpha);
      if (g.beta != 0) {
        x = _mm512_fmadd_ps(beta, load_bf16(m0, c), x);
        y = _mm512_fmadd_ps(beta, load_bf16(m1, c + 16), y);
      }
    }
    const __m512i v = (__m512i)_mm512_cvtne2ps_pbh(y, x);
    if (stream)
      _mm512_stream_si512(reinterpret_cast<__m512i*>(c), v);
    else
      _mm512_mask_storeu_epi16(c, both, v);
  }
}
void write_float_rows(const Bf16Problem& g, float* c, int64_t rows, int64_t cols, const float* from) {
  const __m512 alpha = _mm512_set1_ps(g.alpha), beta = _mm512_set1_ps(g.beta);
  const bool stream = cols % 16 == 0 && streams(g, c, 4);
  for (; rows > 0; --rows, from += kPanelLines, c += g.c.row_stride)
    for (int64_t q = 0; q < cols; q += 16) {
      const __mmask16 mask = lane_mask(cols - q);
      __m512 x = _mm512_mul_ps(_mm512_loadu_ps(from + q), alpha);
      if (g.beta != 0) x = _mm512_fmadd_ps(beta, _mm512_maskz_loadu_ps(mask, c + q), x);
      if (stream)
        _mm512_stream_ps(c + q, x);
      else
        _mm512_mask_storeu_ps(c + q, mask, x);
    }
}

#pragma GCC pop_options

template <class T>
void write_elements(const Bf16Problem& g, T* c, int64_t rows, int64_t cols, const float* from) {
  for (; rows > 0; --rows, from += kPanelLines, c += g.c.row_stride)
    for (int64_t q = 0; q < cols; ++q) {
      T& to = c[q * g.c.col_stride];
      to = g.beta == 0 ? g.alpha * from[q] : g.beta * to + g.alpha * from[q];
    }
}

template <class T>
T* block_of(const Bf16Problem& g, int64_t i, int64_t j) {
  return static_cast<T*>(g.c.data) + i * g.c.row_stride + j * g.c.col_stride;
}
void write_bf16(const void* context, int64_t i, int64_t j, int64_t rows, int64_t cols, const void* sums) {
  const Bf16Problem& g = *static_cast<const Bf16Problem*>(context);
  const float* const from = static_cast<const float*>(sums);
  if (g.c.col_stride == 1) return write_bf16_rows(g, block_of<uint16_t>(g, i, j), rows, cols, from);
  write_elements(g, block_of<BFloat16>(g, i, j), rows, cols, from);
}
void write_float(const void* context, int64_t i, int64_t j, int64_t rows, int64_t cols, const void* sums) {
  const Bf16Problem& g = *static_cast<const Bf16Problem*>(context);
  const float* const from = static_cast<const float*>(sums);
  if (g.c.col_stride == 1) return write_float_rows(g, block_of<float>(g, i, j), rows, cols, from);
  write_elements(g, block_of<float>(g, i, j), rows, cols, from);
}

}  // namespace

bool gemm_bf16(const Bf16Problem& problem, PanelLevel level) {
  Bf16Problem g = problem;
  if (g.m * g.n * g.k <= 4096 && g.m * g.k <= kTinyElements && g.k * g.n <= kTinyElements) {
    gemm_tiny(g);
    return true;
  }
  if (g.n == 1 || (g.m != 1 && g.c.col_stride != 1 && g.c.row_stride == 1)) g = transposed(g);
  if (g.m == 1 && (g.b.col_stride == 1 || g.b.row_stride == 1)) {
    bf16_row_product(g);
    return true;
  }
  if (level == PanelLevel::kNone) return false;
  panel_product({g.m, g.n, g.k, 2, g.a.data, g.a.row_stride, g.a.col_stride, g.b.data, g.b.row_stride, g.b.col_stride, level, bf16_panel_block(level), 0,
                 g.float_c ? write_float : write_bf16, &g});
  return true;
}

}  // namespace tessera::cpu::internal
