#include "tensor/cpu/gemm/gemm_bf16.h"

#include <immintrin.h>

#include <cmath>
#include <utility>

#include "tensor/core/half.h"
#include "tensor/cpu/gemm/gemm_internal.h"
#include "tensor/cpu/gemm/gemm_reduced.h"
#include "tensor/cpu/pointwise/convert.h"
#include "tensor/cpu/support/integer.h"

namespace tessera::cpu::internal {

Bf16Problem transposed(const Bf16Problem& g) {
  const auto flipped = [](const MatrixRef& x) { return MatrixRef{x.data, x.col_stride, x.row_stride}; };
  return {g.n, g.m, g.k, g.alpha, g.beta, flipped(g.b), flipped(g.a), flipped(g.c), g.float_c};
}

namespace {

// ---- Tiny products: in float, many at a time ----

constexpr int64_t kTinySide = 16, kTinySideWithoutTiles = 32;  // on the average; of a matrix on both
constexpr int64_t kTinyFloats = 6 * 1024;                      // of all operands of some products, which stay in L1

// AMX makes up for its panels sooner.
bool is_tiny(const Bf16Problem& g, PanelLevel level) {
  const int64_t side = level == PanelLevel::kAmx ? kTinySide : kTinySideWithoutTiles, area = side * side;
  return g.m * g.n * g.k <= area * side && g.m * g.k <= area && g.k * g.n <= area && g.m * g.n <= area;
}

// `count` matrices, `step` elements apart, one after the other.
void widen_all(const MatrixRef& x, int64_t rows, int64_t cols, int64_t count, int64_t step, float* to) {
  const uint16_t* from = static_cast<const uint16_t*>(x.data);
  if (x.col_stride == 1 && x.row_stride == cols && (count == 1 || step == rows * cols))
    return bfloat16_to_float(to, from, count * rows * cols);
  for (; count > 0; --count, from += step)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) *to++ = bfloat16_bits_to_float(from[i * x.row_stride + j * x.col_stride]);
}
template <class T>
void finish_all(const Bf16Problem& g, int64_t count, int64_t step, const float* sums) {
  T* c = static_cast<T*>(g.c.data);
  if constexpr (sizeof(T) == 2) {
    if (g.c.col_stride == 1 && g.c.row_stride == g.n && (count == 1 || step == g.m * g.n))
      return store_reduced(SourceKind::kBFloat16, count * g.m * g.n, g.alpha, g.beta, sums,
                           static_cast<uint16_t*>(g.c.data));
  }
  for (; count > 0; --count, c += step)
    for (int64_t i = 0; i < g.m; ++i)
      for (int64_t j = 0; j < g.n; ++j) {
        T& to = c[i * g.c.row_stride + j * g.c.col_stride];
        const float v = g.alpha * *sums++;
        to = g.beta == 0 ? v : std::fma(g.beta, static_cast<float>(to), v);  // rounded as in the vectors below
      }
}

void* moved(void* p, int64_t bytes) { return static_cast<char*>(p) + bytes; }

void gemm_tiny(Bf16Problem g, int64_t count, int64_t a_step, int64_t b_step, int64_t c_step) {
  alignas(64) float memory[kTinyFloats];
  const int64_t a_size = g.m * g.k, b_size = g.k * g.n, c_size = g.m * g.n,
                most = kTinyFloats / (a_size + b_size + c_size);
  float *const a = memory, *const b = a + most * a_size, *const c = b + most * b_size;
  while (count > 0) {
    const int64_t n = min64(count, most);
    widen_all(g.a, g.m, g.k, n, a_step, a);
    widen_all(g.b, g.k, g.n, n, b_step, b);
    gemm_real_batch({g.m, g.n, g.k, 1, 0, {a, g.k, 1}, {b, g.n, 1}, c, g.n, 1}, n, a_size, b_size, c_size);
    if (g.float_c)
      finish_all<float>(g, n, c_step, c);
    else
      finish_all<BFloat16>(g, n, c_step, c);
    g.a.data = moved(g.a.data, n * a_step * 2);
    g.b.data = moved(g.b.data, n * b_step * 2);
    g.c.data = moved(g.c.data, n * c_step * (g.float_c ? 4 : 2));
    count -= n;
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
  return g.beta == 0 && ((reinterpret_cast<uintptr_t>(c) | static_cast<uintptr_t>(g.c.row_stride * item)) & 63) == 0 &&
         g.m * g.n * item >= kStreamBytes;
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
      const float v = g.alpha * from[q];
      to = g.beta == 0 ? v : std::fma(g.beta, static_cast<float>(to), v);
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

bool gemm_bf16_batch(const Bf16Problem& problem, int64_t count, int64_t a_step, int64_t b_step, int64_t c_step,
                     PanelLevel level) {
  Bf16Problem g = problem;
  if (is_tiny(g, level)) {
    gemm_tiny(g, count, a_step, b_step, c_step);
    return true;
  }
  if (g.n == 1 || (g.m != 1 && g.c.col_stride != 1 && g.c.row_stride == 1)) {
    g = transposed(g);
    std::swap(a_step, b_step);
  }
  const int64_t c_bytes = c_step * (g.float_c ? 4 : 2);
  if (g.m == 1 && (g.b.col_stride == 1 || g.b.row_stride == 1)) {
    for (; count > 0; --count) {
      bf16_row_product(g);
      g.a.data = moved(g.a.data, 2 * a_step);
      g.b.data = moved(g.b.data, 2 * b_step);
      g.c.data = moved(g.c.data, c_bytes);
    }
    return true;
  }
  if (level == PanelLevel::kNone) return false;
  const PanelProduct product{g.m,
                             g.n,
                             g.k,
                             2,
                             g.a.data,
                             g.a.row_stride,
                             g.a.col_stride,
                             g.b.data,
                             g.b.row_stride,
                             g.b.col_stride,
                             level,
                             bf16_panel_block(level),
                             0,
                             g.float_c ? write_float : write_bf16,
                             &g};
  const auto next = [&] { g.c.data = moved(g.c.data, c_bytes); };
  if (count == 1)
    panel_product(product);
  else
    panel_products(
        product, count, a_step, b_step, [](void* f) { (*static_cast<decltype(next)*>(f))(); },
        const_cast<void*>(static_cast<const void*>(&next)));
  return true;
}

bool gemm_bf16(const Bf16Problem& g, PanelLevel level) { return gemm_bf16_batch(g, 1, 0, 0, 0, level); }

}  // namespace tessera::cpu::internal
