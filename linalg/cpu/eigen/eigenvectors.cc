#include "linalg/cpu/eigen/eigenvectors.h"

#include <algorithm>

#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu::columns {
namespace {

using internal::ScratchArray;

// One vector x of numbers N, real or complex, for a triangle of numbers T: solved from below.
template <class T, class N>
class BackSubstitution {
  using R = Real<T>;
  static constexpr bool kParts = kIsComplex<N> && !kIsComplex<T>;

 public:
  // sums[j]: the sum of the sizes of the elements above the diagonal in column j.
  BackSubstitution(int64_t n, const T* t, int64_t ld, const R* sums) : n_(n), t_(t), ld_(ld), sums_(sums) {}

  // (t - shift) x = 0 with x given in rows [known, end), in re (and im, where t is real and x is not).
  void run(N shift, int64_t known, int64_t end, T* re, T* im) {
    re_ = re;
    im_ = im;
    end_ = end;
    least_ = std::max(kEps<T> * size_of(shift), kSafeMin<T> * (static_cast<R>(n_) / kEps<T>));
    rows_ = known;
    std::fill_n(re, known, T(0));
    if (im) std::fill_n(im, known, T(0));
    for (int64_t j = known; j < end; ++j) subtract(j);
    while (rows_ > 0) {
      const int64_t i = rows_ - 1;
      if (!kIsComplex<T> && i > 0 && at(i, i - 1) != T(0))
        solve_two(i - 1, shift);
      else
        solve_one(i, shift);
    }
  }

 private:
  T at(int64_t i, int64_t j) const { return t_[i + j * ld_]; }
  N get(int64_t i) const {
    if constexpr (kParts)
      return N(re_[i], im_[i]);
    else
      return re_[i];
  }
  void set(int64_t i, N x) {
    if constexpr (kParts) {
      re_[i] = x.real();
      im_[i] = x.imag();
    } else {
      re_[i] = x;
    }
  }
  // What is solved for: x[i] for i < rows_, so that column j goes to the other side.
  void subtract(int64_t j) {
    const Kernels<T>& k = kernels<T>();
    const N x = get(j);
    if constexpr (kParts) {
      const T f[2] = {-x.real(), -x.imag()};
      k.combine(rows_, 1, t_ + j * ld_, ld_, f, re_);
      k.combine(rows_, 1, t_ + j * ld_, ld_, f + 1, im_);
    } else {
      const T f = -x;
      k.combine(rows_, 1, t_ + j * ld_, ld_, &f, re_);
    }
  }
  void shrink(R f) {
    for (int64_t i = 0; i < end_; ++i) {
      re_[i] *= f;
      if (im_) im_[i] *= f;
    }
  }
  // What follows from elements of this size in these columns stays finite.
  void keep_room(R size, R sum) {
    constexpr R kRoom = kSafeMin<T> / kEps<T>;
    if (size > 1 && sum > 1 / kRoom / size) shrink(1 / size);
  }
  // x / d, after all of x was made smaller where the result would be too large. |d| is not below least_.
  N divide(int64_t i, N d) {
    constexpr R kBig = kEps<T> / kSafeMin<T>;
    const R size = size_of(get(i)), by = size_of(d);
    if (by < 1 && size > by * kBig) shrink(1 / size);
    return get(i) / d;
  }
  N at_least(N d) const { return size_of(d) < least_ ? N(least_) : d; }

  void solve_one(int64_t i, N shift) {
    const N x = divide(i, at_least(at(i, i) - shift));
    set(i, x);
    keep_room(size_of(x), sums_[i]);
    rows_ = i;
    subtract(i);
  }
  // The block of rows i, i + 1, by elimination with the larger element of its first column.
  void solve_two(int64_t i, N shift) {
    N a = at(i, i) - shift, b = at(i, i + 1), c = at(i + 1, i), d = at(i + 1, i + 1) - shift;
    N x = get(i), y = get(i + 1);
    if (size_of(c) > size_of(a)) {
      std::swap(a, c);
      std::swap(b, d);
      std::swap(x, y);
    }
    a = at_least(a);
    const N f = c / a;
    d = at_least(d - f * b);
    set(i, x);
    set(i + 1, y - f * x);
    const N second = divide(i + 1, d);
    set(i + 1, second);
    set(i, get(i) - b * get(i + 1));
    const N first = divide(i, a);
    set(i, first);
    keep_room(std::max(size_of(first), size_of(get(i + 1))), std::max(sums_[i], sums_[i + 1]));
    rows_ = i;
    subtract(i);
    subtract(i + 1);
  }

  const int64_t n_;
  const T* t_;
  const int64_t ld_;
  const R* sums_;
  T *re_ = nullptr, *im_ = nullptr;
  int64_t end_ = 0, rows_ = 0;
  R least_ = 0;
};

// Divides rows [0, n) of the vectors by their largest element's size.
template <class T>
void bring_near_one(int64_t n, T* re, T* im) {
  Real<T> most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, size_of(re[i]) + (im ? size_of(im[i]) : 0));
  if (most == 0) return;
  for (int64_t i = 0; i < n; ++i) {
    re[i] /= most;
    if (im) im[i] /= most;
  }
}

}  // namespace

template <class T>
void triangular_eigenvectors(int64_t n, const T* t, int64_t ld, const std::complex<Real<T>>* w, T* x, int64_t x_ld) {
  using R = Real<T>;
  const ScratchArray<R> sums(n);
  for (int64_t j = 0; j < n; ++j) {
    sums[j] = 0;
    for (int64_t i = 0; i < j; ++i) sums[j] += size_of(t[i + j * ld]);
  }
  for (int64_t j = 0; j < n; ++j) {
    T* column = x + j * x_ld;
    std::fill_n(column, n, T(0));
    if constexpr (kIsComplex<T>) {
      column[j] = T(1);
      BackSubstitution<T, T>(n, t, ld, sums.get()).run(w[j], j, j + 1, column, nullptr);
      bring_near_one<T>(j + 1, column, nullptr);
    } else if (w[j].imag() == 0) {
      column[j] = 1;
      BackSubstitution<T, T>(n, t, ld, sums.get()).run(w[j].real(), j, j + 1, column, nullptr);
      bring_near_one<T>(j + 1, column, nullptr);
    } else {
      // The vector of the block [a, b; c, a], b c < 0: (b, i w) or (w, i c) times a number; both its elements are
      // large.
      T* imag = column + x_ld;
      std::fill_n(imag, n, T(0));
      const R b = t[j + (j + 1) * ld], c = t[j + 1 + j * ld], root = w[j].imag();
      if (std::abs(b) >= std::abs(c)) {
        column[j] = 1;
        imag[j + 1] = root / b;
      } else {
        column[j] = -root / c;
        imag[j + 1] = 1;
      }
      BackSubstitution<T, std::complex<R>>(n, t, ld, sums.get()).run(w[j], j, j + 2, column, imag);
      bring_near_one(j + 2, column, imag);
      ++j;
    }
  }
}

#define TESSERA_EIGENVECTORS(T) \
  template void triangular_eigenvectors(int64_t, const T*, int64_t, const std::complex<Real<T>>*, T*, int64_t);
TESSERA_EIGENVECTORS(float)
TESSERA_EIGENVECTORS(double)
TESSERA_EIGENVECTORS(std::complex<float>)
TESSERA_EIGENVECTORS(std::complex<double>)
#undef TESSERA_EIGENVECTORS

}  // namespace tessera::cpu::columns
