// Products with matrices whose rows are dense, and rotations of such rows: the memory-bound half of reductions to
// condensed form. Large ones are shared among threads, in ways that depend on sizes alone.
#pragma once

#include <cstdint>

namespace tessera::cpu::internal {

// Numbers in a line of the cache.
template <class T>
inline constexpr int64_t kLine = 64 / sizeof(T);

// Rows of `n` numbers, `stride` apart. Complex ones are rows of twice as many reals, and products with them are two
// real ones: `sides` is 1 or 2.
template <class R>
struct Rows {
  const R* data;
  int64_t stride, count, n;
  int sides;
};

// out[q][i] = sum_j row_i[j] x[q][j].
void rows_dot(const Rows<float>& a, const float* const* x, float* const* out);
void rows_dot(const Rows<double>& a, const double* const* x, double* const* out);
// y[q][j] += sum_i c[q][i] row_i[j].
void rows_axpy(const Rows<float>& a, const float* const* c, float* const* y);
void rows_axpy(const Rows<double>& a, const double* const* c, double* const* y);
// Both, for a symmetric matrix of which the rows hold what is right of the diagonal, and its diagonal blocks of a line
// whole: with g = i rounded down to a multiple of kLine / width, for j >= g out[q][i] += sum row_i[j] x[q][j],
// and where j is beyond that block y[q][j] += c[q][i] row_i[j]. Numbers have `width` reals; a.data points at the first
// row's column 0, from which columns are counted; a.n counts reals. Fast where rows begin at lines of the cache; `out`
// may be y.
void rows_symmetric(const Rows<float>& a, int64_t width, const float* const* c, float* const* y, const float* const* x,
                    float* const* out);
void rows_symmetric(const Rows<double>& a, int64_t width, const double* const* c, double* const* y,
                    const double* const* x, double* const* out);

// For i = 0, 1 ... count - 1 the rows a = first + i stride, b = a + stride (which may be negative) become c[i] a +
// s[i] b and c[i] b - s[i] a.
void rotate_rows(float* first, int64_t stride, int64_t n, int64_t count, const float* c, const float* s);
void rotate_rows(double* first, int64_t stride, int64_t n, int64_t count, const double* c, const double* s);

}  // namespace tessera::cpu::internal
