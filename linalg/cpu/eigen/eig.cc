#include "linalg/cpu/eigen/eig.h"

#include <vector>

#include "linalg/cpu/batches.h"
#include "linalg/cpu/eigen/eigenvectors.h"
#include "linalg/cpu/eigen/hessenberg.h"
#include "linalg/cpu/eigen/lockstep.h"
#include "linalg/cpu/eigen/schur.h"
#include "linalg/cpu/lane_group.h"
#include "linalg/cpu/reflections.h"

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

// The power of two by which elements of up to `least` or from `most` on are brought near 1; 0 if one of them is not
// finite.
template <class T>
Real<T> scale_of(int64_t n, Matrix<T> a, Real<T> least, Real<T> most) {
  using R = Real<T>;
  R largest = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const R size = std::max(std::abs(real_part(a(i, j))), std::abs(imag_part(a(i, j))));
      if (!(size <= largest)) largest = size;
      if (!std::isfinite(size)) return 0;
    }
  if (largest == 0 || (largest > least && largest < most)) return 1;
  return std::ldexp(R(1), std::clamp(-std::ilogb(largest), std::numeric_limits<R>::min_exponent,
                                     std::numeric_limits<R>::max_exponent - 1));
}

template <class T>
int32_t decompose(int64_t n, Matrix<T> a, std::complex<Real<T>>* w, const Matrix<std::complex<Real<T>>>* v) {
  using R = Real<T>;
  // Where squares are numbers.
  const R small = std::sqrt(kSafeMin<T>) / kEps<T>, factor = scale_of(n, a, small, 1 / small);
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

// The matrix of number i, whose results go to w and v.
template <class T>
int32_t one(const MatrixBatch& a, int64_t i, void* w, const MatrixBatch* v) {
  using C = std::complex<Real<T>>;
  constexpr Real<T> kNan = std::numeric_limits<Real<T>>::quiet_NaN();
  const int64_t n = a.rows;
  C* values = static_cast<C*>(w) + i * n;
  const Matrix<C> vectors = v ? matrix_of<C>(*v, i) : Matrix<C>{};
  const int32_t info = decompose(n, matrix_of<T>(a, i), values, v ? &vectors : nullptr);
  if (info == 0) return 0;
  std::fill_n(values, n, C(kNan, kNan));
  for (int64_t r = 0; v && r < n; ++r)
    for (int64_t c = 0; c < n; ++c) vectors(r, c) = C(kNan, kNan);
  return info;
}

// Whether matrices go in lanes. One alone does, too, beside idle lanes: a batch has the bits, and the order of
// eigenvalues, of its matrices one by one.
template <class T>
bool goes_together(int64_t n) {
  return !kIsComplex<T> && n <= 32;
}

// A group of small matrices.
template <class R>
void together(const internal::LaneGroup<R>& group, const MatrixBatch& a, void* w, const MatrixBatch* v, int32_t* info) {
  using C = std::complex<R>;
  const int64_t n = a.rows, lanes = group.lanes, vectors = v ? 2 * n * n : 0;
  const ScratchArray<R> matrix(internal::lockstep_eig_matrix(n) * lanes), values(2 * n * lanes), x(vectors * lanes),
      room(internal::lockstep_eig_room(n, v != nullptr) * lanes);
  std::vector<Matrix<R>> from(lanes);
  std::vector<R> factor(lanes);
  for (int64_t lane = 0; lane < group.used; ++lane) {
    from[lane] = matrix_of<R>(a, group.first + lane);
    factor[lane] = scale_of(n, from[lane], R(1) / 256, R(256));
  }
  group.load(
      matrix.get(), n + 1, n + 1, [](int64_t) { return 0; },
      [&](int64_t lane, int64_t i, int64_t j) {
        return i < n && j < n && factor[lane] != 0 ? from[lane](i, j) * factor[lane] : R(0);
      });
  const uint32_t others =
      internal::lockstep_eig<R>().eig(matrix.get(), n, values.get(), v ? x.get() : nullptr, room.get());
  for (int64_t lane = 0; lane < group.used; ++lane) {
    const int64_t k = group.first + lane;
    info[k] = 0;
    if (factor[lane] == 0 || (others >> lane & 1)) {
      info[k] = one<R>(a, k, w, v);
      continue;
    }
    C* const to = static_cast<C*>(w) + k * n;
    for (int64_t i = 0; i < n; ++i)
      to[i] = {values[i * lanes + lane] / factor[lane], values[(n + i) * lanes + lane] / factor[lane]};
    if (!v) continue;
    const Matrix<C> vector = matrix_of<C>(*v, k);
    for (int64_t j = 0; j < n; ++j) {
      const R *const re = x.get() + 2 * j * n * lanes + lane, *const im = re + n * lanes;
      for (int64_t i = 0; i < n; ++i) vector(i, j) = {re[i * lanes], im[i * lanes]};
    }
  }
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
    if constexpr (!kIsComplex<T>)
      if (goes_together<T>(n))
        return internal::for_lane_groups<T>(
            internal::lockstep_eig<T>().lanes(), a.count,
            [&](const internal::LaneGroup<T>& group) { together(group, a, w, v, info); });
    for_matrices(a.count, 20.0 * n * n * n, [&](int64_t i) { info[i] = one<T>(a, i, w, v); });
  });
}

}  // namespace tessera::cpu
