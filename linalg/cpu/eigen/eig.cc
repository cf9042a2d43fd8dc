#include "linalg/cpu/eigen/eig.h"

#include "linalg/cpu/batches.h"
#include "linalg/cpu/eigen/eigenvectors.h"
#include "linalg/cpu/eigen/hessenberg.h"
#include "linalg/cpu/reflections.h"
#include "linalg/cpu/eigen/schur.h"

namespace tessera::cpu {
namespace {

using namespace columns;

// Divides a vector by its norm and turns it so that its largest element is real.
template <class R>
void normalize(int64_t n, std::complex<R>* v) {
  using C = std::complex<R>;
  const R length = norm(n, v);
  if (!(length > 0)) return;
  int64_t at = 0;
  R most = -1;
  for (int64_t i = 0; i < n; ++i) {
    v[i] /= length;
    const R size = v[i].real() * v[i].real() + v[i].imag() * v[i].imag();
    if (size > most) {
      most = size;
      at = i;
    }
  }
  const C turn = std::conj(v[at]) / std::sqrt(most);
  if (turn.imag() == 0) return;
  for (int64_t i = 0; i < n; ++i) v[i] = times(v[i], turn);
  v[at] = v[at].real();
}

// Columns of eigenvectors as LAPACK's drivers have them: real ones, and pairs of a real and an imaginary part.
template <class R>
void store_vectors(int64_t n, const R* x, int64_t ld, const std::complex<R>* w, Matrix<std::complex<R>> v) {
  using C = std::complex<R>;
  const ScratchArray<C> memory(n);
  C* one = memory.get();
  for (int64_t j = 0; j < n; ++j) {
    const bool pair = w[j].imag() != 0;
    for (int64_t i = 0; i < n; ++i) one[i] = {x[i + j * ld], pair ? x[i + (j + 1) * ld] : R(0)};
    if (pair) {
      normalize(n, one);
    } else {
      const R length = norm(n, x + j * ld);
      for (int64_t i = 0; length > 0 && i < n; ++i) one[i] = one[i].real() / length;
    }
    for (int64_t i = 0; i < n; ++i) v(i, j) = one[i];
    if (!pair) continue;
    ++j;
    for (int64_t i = 0; i < n; ++i) v(i, j) = std::conj(one[i]);
  }
}
template <class R>
void store_vectors(int64_t n, std::complex<R>* x, int64_t ld, const std::complex<R>*, Matrix<std::complex<R>> v) {
  for (int64_t j = 0; j < n; ++j) {
    normalize(n, x + j * ld);
    for (int64_t i = 0; i < n; ++i) v(i, j) = x[i + j * ld];
  }
}

// The power of two by which elements near the limits are brought to where their squares are numbers; 0 if one of them
// is not finite.
template <class T>
Real<T> scale_of(int64_t n, Matrix<T> a) {
  using R = Real<T>;
  R most = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const R size = std::max(std::abs(real_part(a(i, j))), std::abs(imag_part(a(i, j))));
      if (!(size <= most)) most = size;
      if (!std::isfinite(size)) return 0;
    }
  const R small = std::sqrt(kSafeMin<T>) / kEps<T>;
  if (most == 0 || (most > small && most < 1 / small)) return 1;
  return std::ldexp(R(1), std::clamp(-std::ilogb(most), std::numeric_limits<R>::min_exponent,
                                     std::numeric_limits<R>::max_exponent - 1));
}

template <class T>
int32_t decompose(int64_t n, Matrix<T> a, std::complex<Real<T>>* w, const Matrix<std::complex<Real<T>>>* v) {
  using R = Real<T>;
  const R factor = scale_of(n, a);
  if (factor == 0) return -1;
  const int64_t ld = padded_rows<T>(n);
  const ScratchArray<T> memory(ld * n * (v ? 3 : 1));
  const ScratchArray<R> scale(n);
  T *h = memory.get(), *z = v ? h + ld * n : nullptr;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) h[i + j * ld] = a(i, j) * factor;
  const Balance<R> b = balance(n, h, ld, scale.get());
  reduce_to_hessenberg(n, b.lo, b.hi, h, ld, z, ld);
  const int64_t failed = schur(SchurProblem<T>{n, b.lo, b.hi, h, ld, v != nullptr, z, n, ld, w});
  if (failed) return static_cast<int32_t>(failed);
  if (v) {
    T *x = z + ld * n, *u = h;
    triangular_eigenvectors(n, h, ld, w, x, ld);
    multiply(n, n, n, T(1), in_columns(z, ld), in_columns(x, ld), T(0), in_columns(u, ld));
    undo_balance(b, n, n, u, ld);
    store_vectors(n, u, ld, w, *v);
  }
  for (int64_t i = 0; i < n; ++i) w[i] /= factor;
  return 0;
}

}  // namespace

void run_eig(DType dtype, MatrixBatch a, void* w, const MatrixBatch* v, int32_t* info) {
  const int64_t n = a.rows;
  if (n == 0) {
    std::fill_n(info, a.count, 0);
    return;
  }
  visit_number(dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = std::complex<Real<T>>;
    constexpr Real<T> kNan = std::numeric_limits<Real<T>>::quiet_NaN();
    for_matrices(a.count, 20.0 * n * n * n, [&](int64_t i) {
      C* values = static_cast<C*>(w) + i * n;
      const Matrix<C> vectors = v ? matrix_of<C>(*v, i) : Matrix<C>{};
      info[i] = decompose(n, matrix_of<T>(a, i), values, v ? &vectors : nullptr);
      if (info[i] == 0) return;
      std::fill_n(values, n, C(kNan, kNan));
      for (int64_t r = 0; v && r < n; ++r)
        for (int64_t c = 0; c < n; ++c) vectors(r, c) = C(kNan, kNan);
    });
  });
}

}  // namespace tessera::cpu
