#include "linalg/cpu/spectral/tridiagonal.h"

#include <algorithm>
#include <cmath>

#include "linalg/cpu/spectral/rotation.h"
#include "tensor/core/parallel.h"

namespace tessera::cpu::internal {
namespace {

// The other halves of the blocks on the diagonal that products read whole, from row `begin` on.
template <class T>
void complete_blocks(T* rows, int64_t ld, int64_t begin, int64_t n) {
  for (int64_t i = begin; i < n; ++i)
    for (int64_t j = std::max(begin, i - i % kLine<T>); j < i; ++j) rows[i * ld + j] = conjugate(rows[j * ld + i]);
}

// Columns `begin` ... of a Hermitian matrix in rows, reduced while what is to come is left as it was: that is A - V W^H
// - W V^H with the rows of V where the columns were, and those of W in `w`.
template <class T>
class Panel {
 public:
  Panel(T* rows, int64_t ld, int64_t n, int64_t begin, T* w, const RowProducts<T>& products)
      : rows_(rows), ld_(ld), n_(n), begin_(begin), w_(w), products_(products) {}

  // Column begin + i. Vectors are read from where memory is aligned, with zeros in front of v.
  void reduce(int64_t i, double* d, double* e, T* tau) const {
    using R = Real<T>;
    const int64_t k = begin_ + i, rest = n_ - k - 1;
    T *const column = rows_ + k * ld_, *const v = column + k + 1, *const w = w_ + i * ld_ + k + 1;
    T by_v[kPanel], by_w[kPanel];
    for (int64_t p = 0; p < i; ++p) {
      by_v[p] = -conjugate(w_[p * ld_ + k]);
      by_w[p] = -conjugate(v_row(p)[k]);
    }
    int64_t from = k - k % kLine<T>;
    std::fill(column + from, column + k, T{});
    products_.axpy(v_row(0) + from, ld_, i, n_ - from, by_v, column + from);
    products_.axpy(w_ + from, ld_, i, n_ - from, by_w, column + from);
    d[k] = real_part(column[k]);
    tau[k] = make_reflector(v, rest, e + k);
    if (tau[k] == T{}) {
      std::fill_n(w, rest, T{});
      return;
    }
    from = k + 1 - (k + 1) % kLine<T>;
    std::fill(column + from, column + k + 1, T{});
    const T* const lifted = column + from;
    T* const sum = w_ + i * ld_ + from;
    products_.hermitian(rows_ + from * (ld_ + 1), ld_, n_ - from, lifted, sum);
    std::fill(sum, w, T{});
    products_.dot(w_ + from, ld_, i, n_ - from, lifted, by_v);
    products_.dot(v_row(0) + from, ld_, i, n_ - from, lifted, by_w);
    for (int64_t p = 0; p < i; ++p) by_v[p] = -by_v[p], by_w[p] = -by_w[p];
    products_.axpy(v_row(0) + from, ld_, i, n_ - from, by_v, sum);
    products_.axpy(w_ + from, ld_, i, n_ - from, by_w, sum);
    T inner;
    products_.dot(sum, 0, 1, n_ - from, lifted, &inner);  // w^H v
    // w = tau w - 1/2 tau (tau w)^H v v
    const T along = times(times(tau[k], conjugate(tau[k])), inner) * R{-0.5};
    for (int64_t j = 0; j < rest; ++j) w[j] = times(tau[k], w[j]) + times(along, v[j]);
  }

  // Brings what follows the panel's `count` columns up to date; `room` holds 3 count n elements.
  void update(int64_t count, T* room) const {
    const int64_t first = begin_ + count, rest = n_ - first;
    if (rest <= 0) return;
    // W, V, W: the first two are one factor, the last two the other.
    T *const left = room, *const right = room + count * rest;
    for (int64_t p = 0; p < count; ++p) {
      const T *v = v_row(p) + first, *w = w_ + p * ld_ + first;
      std::copy_n(w, rest, left + p * rest);
      std::copy_n(v, rest, right + p * rest);
      std::copy_n(w, rest, right + (count + p) * rest);
    }
    const int64_t strip = std::max<int64_t>(64, (rest / 4 + 15) / 16 * 16);
    parallel_for(rest, strip, [&](int64_t j, int64_t end) {
      gemm_wide(kDType<T>, end - j, rest - j, 2 * count, number(T(-1)), in_rows(left + j, rest).transposed().ref(),
                in_rows(right + j, rest).ref(), number(T(1)), in_rows(rows_ + (first + j) * (ld_ + 1), ld_).ref(),
                kIsComplex<T>, false, GemmPart::kUpper);
    });
    complete_blocks(rows_, ld_, first, n_);
  }

 private:
  const T* v_row(int64_t p) const { return rows_ + (begin_ + p) * ld_; }

  T* rows_;
  int64_t ld_, n_, begin_;
  T* w_;
  const RowProducts<T>& products_;
};

}  // namespace

template <class T>
void reduce_to_tridiagonal(T* rows, int64_t ld, int64_t n, double* d, double* e, T* tau) {
  if (n == 0) return;
  ScratchArray<T> w(kPanel * ld), room(3 * kPanel * n);
  std::fill_n(w.get(), kPanel * ld, T{});
  const RowProducts<T> products(n);
  complete_blocks(rows, ld, 0, n);
  for (int64_t begin = 0; begin < n - 1; begin += kPanel) {
    const int64_t count = std::min(kPanel, n - 1 - begin);
    const Panel<T> panel(rows, ld, n, begin, w.get(), products);
    for (int64_t i = 0; i < count; ++i) panel.reduce(i, d, e, tau);
    panel.update(count, room.get());
  }
  d[n - 1] = real_part(rows[(n - 1) * (ld + 1)]);
}

namespace {

// One implicit step on rows begin ... end of the tridiagonal matrix (Golub and Van Loan, 8.3.2), from the top to the
// bottom; the rotations come into `turns`.
void qr_step(double* d, double* e, int64_t n, double shift, Rotations& turns) {
  double x = d[0] - shift, z = e[0];
  for (int64_t k = 0; k + 1 < n; ++k) {
    const Rotation g = rotation(x, z);
    if (k > 0) e[k - 1] = g.r;
    const double off = e[k], change = (d[k + 1] - d[k]) * g.s + 2 * g.c * off;
    d[k] += g.s * change;
    d[k + 1] -= g.s * change;
    e[k] = g.c * change - off;
    if (k + 2 < n) {
      x = e[k];
      z = g.s * e[k + 1];
      e[k + 1] *= g.c;
    }
    turns.set(k, g);
  }
}

// Of the last 2 x 2 block's eigenvalues that nearer to its last element (Wilkinson).
double shift_of(double a, double b, double c) {
  const double half = (a - c) / 2, root = std::hypot(half, b);
  return half == 0 && root == 0 ? c : c - b * (b / (half + std::copysign(root, half)));
}

}  // namespace

template <class R>
bool tridiagonal_qr(double* d, double* e, int64_t n, R* rows, int64_t stride, int64_t width) {
  const double eps = std::numeric_limits<R>::epsilon() / 2;
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max({largest, std::abs(d[i]), i + 1 < n ? std::abs(e[i]) : 0});
  // Small numbers keep their digits, unless that takes too long.
  double nothing = 1e-290;
  const auto small = [&](int64_t i) {
    return !(std::abs(e[i]) > eps * (std::abs(d[i]) + std::abs(d[i + 1])) && std::abs(e[i]) > nothing);
  };
  Rotations turns(n);
  int64_t left = 60 * n;
  bool is_reversed = false;
  int64_t block_begin = -1, block_end = -1;
  for (int64_t end = n - 1; end > 0;) {
    if (small(end - 1)) {
      e[--end] = 0;
      continue;
    }
    int64_t begin = end - 1;
    while (begin > 0 && !small(begin - 1)) --begin;
    if (begin > 0) e[begin - 1] = 0;
    if (--left < 0) return false;
    if (left < 40 * n) nothing = std::max(nothing, eps * largest);
    const int64_t count = end - begin + 1;
    // Larger numbers first: a block that grows downwards is turned round, in steps as in what they do to rows. The
    // decision is kept as long as the block is the same.
    if (begin != block_begin || end != block_end) {
      is_reversed = std::abs(d[begin]) < std::abs(d[end]);
      block_begin = begin;
      block_end = end;
    }
    double *db = d + begin, *eb = e + begin;
    if (is_reversed) {
      std::reverse(db, db + count);
      std::reverse(eb, eb + count - 1);
    }
    qr_step(db, eb, count, shift_of(db[count - 2], eb[count - 2], db[count - 1]), turns);
    if (is_reversed) {
      std::reverse(db, db + count);
      std::reverse(eb, eb + count - 1);
    }
    if (rows)
      turns.apply(rows + (is_reversed ? end : begin) * stride, is_reversed ? -stride : stride, width, count - 1);
    // A block that ended at its top is left by the search above.
    if (is_reversed && small(begin)) e[begin] = 0;
  }
  return true;
}

#define TESSERA_TRIDIAGONAL(T) template void reduce_to_tridiagonal<T>(T*, int64_t, int64_t, double*, double*, T*)
TESSERA_TRIDIAGONAL(float);
TESSERA_TRIDIAGONAL(double);
TESSERA_TRIDIAGONAL(std::complex<float>);
TESSERA_TRIDIAGONAL(std::complex<double>);
template bool tridiagonal_qr<float>(double*, double*, int64_t, float*, int64_t, int64_t);
template bool tridiagonal_qr<double>(double*, double*, int64_t, double*, int64_t, int64_t);

}  // namespace tessera::cpu::internal
