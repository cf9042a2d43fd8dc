#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "linalg/cpu/spectral/rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "linalg/cpu/spectral/rows-inl.h"
#include "tensor/cpu/support/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {

void DotF32(const Rows<float>& a, const float* const* x, float* const* out) { DotRows(a, x, out); }
void DotF64(const Rows<double>& a, const double* const* x, double* const* out) { DotRows(a, x, out); }
void AxpyF32(const Rows<float>& a, const float* const* c, float* const* y) { AxpyRows(a, c, y); }
void AxpyF64(const Rows<double>& a, const double* const* c, double* const* y) { AxpyRows(a, c, y); }
void SymmetricF32(const Rows<float>& a, int64_t width, const float* const* c, float* const* y, const float* const* x,
                  float* const* out) {
  SymmetricRows(a, width, c, y, x, out);
}
void SymmetricF64(const Rows<double>& a, int64_t width, const double* const* c, double* const* y,
                  const double* const* x, double* const* out) {
  SymmetricRows(a, width, c, y, x, out);
}
void RotateF32(float* first, int64_t stride, int64_t n, int64_t count, const float* c, const float* s) {
  Rotate(first, stride, n, count, c, s);
}
void RotateF64(double* first, int64_t stride, int64_t n, int64_t count, const double* c, const double* s) {
  Rotate(first, stride, n, count, c, s);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

#include "tensor/core/parallel.h"
#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu::internal {

TESSERA_SIMD_TABLE(DotF32);
TESSERA_SIMD_TABLE(DotF64);
TESSERA_SIMD_TABLE(AxpyF32);
TESSERA_SIMD_TABLE(AxpyF64);
TESSERA_SIMD_TABLE(SymmetricF32);
TESSERA_SIMD_TABLE(SymmetricF64);
TESSERA_SIMD_TABLE(RotateF32);
TESSERA_SIMD_TABLE(RotateF64);

namespace {

// Elements from which on several threads read a matrix, and for how many of them a piece of work pays; the halves of
// symmetric ones are in nearer caches.
constexpr int64_t kShared = int64_t{1} << 15, kPiece = int64_t{1} << 14, kSymmetricPiece = int64_t{1} << 16;

template <class R>
struct Sides {
  R* at[2];
  Sides(R* const* p, int sides, int64_t i) : at{p[0] + i, sides == 2 ? p[1] + i : nullptr} {}
};

// Rows are shared out: each sum is made by one thread.
template <class R, class F>
void share_dot(const Rows<R>& a, const R* const* x, R* const* out, F kernel) {
  if (a.count * a.n < kShared) return kernel(a, x, out);
  const int64_t grain = (kPiece / a.n + 8) / 8 * 8;
  parallel_for(a.count, grain, [&](int64_t begin, int64_t end) {
    const Sides<R> to(out, a.sides, begin);
    kernel({a.data + begin * a.stride, a.stride, end - begin, a.n, a.sides}, x, to.at);
  });
}
// Columns are.
template <class R, class F>
void share_axpy(const Rows<R>& a, const R* const* c, R* const* y, F kernel) {
  if (a.count * a.n < kShared) return kernel(a, c, y);
  const int64_t grain = (kPiece / a.count + 64) / 64 * 64;
  parallel_for(a.n, grain, [&](int64_t begin, int64_t end) {
    const Sides<R> to(y, a.sides, begin);
    kernel({a.data + begin, a.stride, a.count, end - begin, a.sides}, c, to.at);
  });
}
// Rows of about as many elements; each part has sums of its own, which are added in order.
template <class R, class F>
void share_symmetric(const Rows<R>& a, int64_t width, const R* const* c, R* const* y, const R* const* x, R* const* out,
                     F kernel) {
  const int64_t parts = std::min<int64_t>(4, a.count * a.n / 2 / kSymmetricPiece);
  if (parts < 2) return kernel(a, width, c, y, x, out);
  const int64_t in_line = kLine<R> / width;
  const auto begin_of = [&](int64_t part) {
    // What is left of the triangle below row r is (1 - r / count)^2 of it.
    const double share = 1 - static_cast<double>(part) / static_cast<double>(parts);
    return part == parts
               ? a.count
               : static_cast<int64_t>(static_cast<double>(a.count) * (1 - std::sqrt(share))) / in_line * in_line;
  };
  const int64_t n = a.n, sides = a.sides;
  ScratchArray<R> sums((parts - 1) * sides * n);
  std::fill_n(sums.get(), (parts - 1) * sides * n, R{0});
  parallel_for(parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) {
      const int64_t begin = begin_of(p), at = begin * width;
      R* const own = p == 0 ? nullptr : sums.get() + (p - 1) * sides * n;
      R* const own_sides[2] = {own, own + (sides - 1) * n};
      R* const* const into = p == 0 ? y : own_sides;
      const Sides<R> to(into, a.sides, at), result(out[0] == y[0] ? into : out, a.sides, begin);
      const Sides<const R> factors(c, a.sides, begin), other(x, a.sides, at);
      kernel({a.data + begin * a.stride + at, a.stride, begin_of(p + 1) - begin, n - at, a.sides}, width, factors.at,
             to.at, other.at, result.at);
    }
  });
  for (int64_t p = 1; p < parts; ++p)
    for (int64_t q = 0; q < sides; ++q) {
      const R* const own = sums.get() + ((p - 1) * sides + q) * n;
      for (int64_t j = begin_of(p) * width; j < n; ++j) y[q][j] += own[j];
    }
}

}  // namespace

void rows_dot(const Rows<float>& a, const float* const* x, float* const* out) {
  share_dot(a, x, out, TESSERA_SIMD(DotF32));
}
void rows_dot(const Rows<double>& a, const double* const* x, double* const* out) {
  share_dot(a, x, out, TESSERA_SIMD(DotF64));
}
void rows_axpy(const Rows<float>& a, const float* const* c, float* const* y) {
  share_axpy(a, c, y, TESSERA_SIMD(AxpyF32));
}
void rows_axpy(const Rows<double>& a, const double* const* c, double* const* y) {
  share_axpy(a, c, y, TESSERA_SIMD(AxpyF64));
}
void rows_symmetric(const Rows<float>& a, int64_t width, const float* const* c, float* const* y, const float* const* x,
                    float* const* out) {
  share_symmetric(a, width, c, y, x, out, TESSERA_SIMD(SymmetricF32));
}
void rows_symmetric(const Rows<double>& a, int64_t width, const double* const* c, double* const* y,
                    const double* const* x, double* const* out) {
  share_symmetric(a, width, c, y, x, out, TESSERA_SIMD(SymmetricF64));
}
void rotate_rows(float* first, int64_t stride, int64_t n, int64_t count, const float* c, const float* s) {
  TESSERA_SIMD(RotateF32)(first, stride, n, count, c, s);
}
void rotate_rows(double* first, int64_t stride, int64_t n, int64_t count, const double* c, const double* s) {
  TESSERA_SIMD(RotateF64)(first, stride, n, count, c, s);
}

}  // namespace tessera::cpu::internal
#endif
