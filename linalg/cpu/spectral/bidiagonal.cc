#include "linalg/cpu/spectral/bidiagonal.h"

#include <algorithm>
#include <cmath>

#include "linalg/cpu/spectral/rotation.h"

namespace tessera::cpu::internal {
namespace {

using columns::padded_rows;

// Columns and rows `begin` ... reduced while what is to come is left as it was: that is A - V Y^H - X W^H, with V in
// the columns' place, W in `right`, and the rows of X and Y in memory of their own.
template <class T>
class Panel {
 public:
  using R = Real<T>;

  // x, y: room for panels of columns as long as those of the matrix.
  Panel(T* columns, int64_t ld, int64_t m, int64_t n, int64_t begin, T* right, int64_t right_ld, T* x, T* y,
        const RowProducts<T>& products)
      : a_(columns),
        ld_(ld),
        m_(m),
        n_(n),
        begin_(begin),
        w_(right),
        w_ld_(right_ld),
        x_(x),
        y_(y),
        products_(products) {}

  void reduce(int64_t i, double* d, double* e, T* tau_left, T* tau_right) const {
    const int64_t k = begin_ + i, tall = m_ - k, rest = n_ - k - 1;
    T* const column = a_ + k * ld_ + k;
    T c[kPanel];
    gather(y_ + k, ld_, i, c);
    products_.axpy(v(0) + k, ld_, i, tall, c, column);
    gather(w(0) + k, w_ld_, i, c);
    products_.axpy(x_ + k, ld_, i, tall, c, column);
    tau_left[k] = make_reflector(column, tall, d + k);
    if (rest == 0) return;

    // y = tau (A - V Y^H - X W^H)^H v, and the row, conjugate, without y: of both what the panel changes.
    T *const y = y_ + i * ld_ + k + 1, *const row = w(i) + k + 1;
    std::fill_n(y, rest, T{});
    products_.dot(v(0) + k, ld_, i, tall, column, c);
    subtract(y_ + k + 1, ld_, i, rest, c, y);
    products_.dot(x_ + k, ld_, i, tall, column, c);
    subtract(w(0) + k + 1, w_ld_, i, rest, c, y);
    for (int64_t j = 0; j < rest; ++j) row[j] = conjugate(a_[(k + 1 + j) * ld_ + k]);
    gather(v(0) + k, ld_, i, c);
    products_.axpy(y_ + k + 1, ld_, i, rest, c, row);
    gather(x_ + k, ld_, i, c);
    products_.axpy(w(0) + k + 1, w_ld_, i, rest, c, row);

    // x = tau (A - V Y^H - X W^H) w below row k, where w is the row but for a factor and its first element.
    T* const x = x_ + i * ld_ + k + 1;
    const int64_t below = tall - 1;
    pass(k, tau_left[k], y, row, x);
    const T first = row[0];
    tau_right[k] = make_reflector(row, rest, e + k);
    const T length = static_cast<R>(e[k]), inverse = T(1) / (first - length);
    constexpr R kLeast = kSafeMin<T> / (kEps<T> * kEps<T>);  // of rows whose products are sure to have all digits
    if (tau_right[k] == T{}) {
      std::fill_n(x, below, T{});
      return;
    }
    if (std::abs(e[k]) > kLeast) {
      const T* const next = a_ + (k + 1) * ld_ + k + 1;
      for (int64_t j = 0; j < below; ++j) x[j] = times(x[j] - length * next[j], inverse);
    } else {
      std::fill_n(x, below, T{});
      products_.axpy(a_ + (k + 1) * ld_ + k + 1, ld_, rest, below, row, x);
    }
    products_.dot(y_ + k + 1, ld_, i + 1, rest, row, c);
    subtract(v(0) + k + 1, ld_, i + 1, below, c, x);
    products_.dot(w(0) + k + 1, w_ld_, i, rest, row, c);
    subtract(x_ + k + 1, ld_, i, below, c, x);
    for (int64_t j = 0; j < below; ++j) x[j] = times(tau_right[k], x[j]);
  }

  // Brings what follows `count` columns and rows up to date; `room` holds 2 count (m + n) elements.
  void update(int64_t count, T* room) const {
    const int64_t k = begin_ + count, rest = n_ - k, below = m_ - k;
    if (rest <= 0) return;
    T *const right = room, *const left = room + 2 * count * rest;
    for (int64_t p = 0; p < count; ++p) {
      std::copy_n(y_ + p * ld_ + k, rest, right + p * rest);
      std::copy_n(w(p) + k, rest, right + (count + p) * rest);
      std::copy_n(v(p) + k, below, left + p * below);
      std::copy_n(x_ + p * ld_ + k, below, left + (count + p) * below);
    }
    multiply_adjoint(rest, below, 2 * count, T(-1), in_rows(right, rest), in_rows(left, below), T(1),
                     in_rows(a_ + k * (ld_ + 1), ld_));
  }

 private:
  // Row i of the panel's part.
  T* v(int64_t i) const { return a_ + (begin_ + i) * ld_; }
  T* w(int64_t i) const { return w_ + (begin_ + i) * w_ld_; }

  static void gather(const T* from, int64_t stride, int64_t count, T* to) {
    for (int64_t p = 0; p < count; ++p) to[p] = -conjugate(from[p * stride]);
  }
  // y -= rows^T c; c is lost.
  void subtract(const T* rows, int64_t stride, int64_t count, int64_t n, T* c, T* y) const {
    for (int64_t p = 0; p < count; ++p) c[p] = -c[p];
    products_.axpy(rows, stride, count, n, c, y);
  }

  // Behind column k, whose reflection v stands in it: y = tau (y + A^H v), row = row - y, x = A row below row k. Each
  // column is read once, for its product with v and then, out of the cache, for x; from where its memory is aligned,
  // with zeros in front of v.
  void pass(int64_t k, T tau, T* y, T* row, T* x) const {
    constexpr int64_t kColumns = kIsComplex<T> ? 4 : 8, kPiece = int64_t{1} << 14;
    const int64_t rest = n_ - k - 1, front = k % kLine<T>, tall = m_ - k + front, step = padded_rows<T>(tall);
    // Parts depend on sizes alone; each has a sum of its own, and these are added in order.
    const int64_t parts = std::clamp<int64_t>(rest * tall / kPiece, 1, 4),
                  size = (rest + parts * kColumns - 1) / (parts * kColumns) * kColumns;
    const ScratchArray<T> memory((parts + 1) * step);
    T *const v = memory.get(), *const sums = v + step;
    std::fill_n(v, front, T{});
    std::copy_n(a_ + k * (ld_ + 1), m_ - k, v + front);
    const auto some = [&](int64_t part) {
      T* const sum = sums + part * step;
      std::fill_n(sum, tall, T{});
      const RowProducts<T> products(kIsComplex<T> ? tall : 0);
      const auto factor = products.prepare(v, tall);
      products.begin_sum(tall);
      const int64_t end = std::min(rest, (part + 1) * size);
      for (int64_t j = part * size; j < end; j += kColumns) {
        const int64_t count = std::min(kColumns, end - j);
        const T* const columns = a_ + (k + 1 + j) * ld_ + k - front;
        T by_v[kColumns];
        products.dot(columns, ld_, count, tall, factor, by_v);
        for (int64_t q = 0; q < count; ++q) {
          y[j + q] = times(tau, y[j + q] + by_v[q]);
          row[j + q] -= y[j + q];
        }
        products.add(columns, ld_, count, tall, row + j, sum);
      }
      products.end_sum(tall, sum);
    };
    if (parts == 1)
      some(0);
    else
      parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t part = begin; part < end; ++part) some(part);
      });
    std::copy_n(sums + front + 1, m_ - k - 1, x);
    for (int64_t part = 1; part < parts; ++part)
      for (int64_t j = 0; j < m_ - k - 1; ++j) x[j] += sums[part * step + front + 1 + j];
  }

  T* a_;
  int64_t ld_, m_, n_, begin_;
  T* w_;
  int64_t w_ld_;
  T *x_, *y_;
  const RowProducts<T>& products_;
};

}  // namespace

template <class T>
void reduce_to_bidiagonal(T* columns, int64_t ld, int64_t m, int64_t n, double* d, double* e, T* tau_left, T* right,
                          int64_t right_ld, T* tau_right) {
  ScratchArray<T> x(kPanel * ld), y(kPanel * ld), room(2 * kPanel * (m + n));
  const RowProducts<T> products(m);
  for (int64_t begin = 0; begin < n; begin += kPanel) {
    const int64_t count = std::min(kPanel, n - begin);
    const Panel<T> panel(columns, ld, m, n, begin, right, right_ld, x.get(), y.get(), products);
    for (int64_t i = 0; i < count; ++i) panel.reduce(i, d, e, tau_left, tau_right);
    panel.update(count, room.get());
  }
}

namespace {

// Singular values of [f g; 0 h], the smaller one (Demmel and Kahan).
double smaller_singular_value(double f, double g, double h) {
  f = std::abs(f), g = std::abs(g), h = std::abs(h);
  const double least = std::min(f, h), most = std::max(f, h);
  if (least == 0) return 0;
  if (g < most) {
    const double sum = 1 + least / most, difference = (most - least) / most, ratio = g / most;
    const double c = 2 / (std::sqrt(sum * sum + ratio * ratio) + std::sqrt(difference * difference + ratio * ratio));
    return least * c;
  }
  const double ratio = most / g;
  if (ratio == 0) return least * most / g;
  const double sum = 1 + least / most, difference = (most - least) / most, a = sum * ratio, b = difference * ratio;
  const double c = 1 / (std::sqrt(1 + a * a) + std::sqrt(1 + b * b));
  return 2 * (least * c) * ratio;
}

// A block of the bidiagonal matrix and what its rotations come to.
struct Sweep {
  Rotations *left, *right;

  // From the top to the bottom, with a shift (a singular value, nearly).
  void shifted(double* d, double* e, int64_t n, double shift) const {
    double f = (std::abs(d[0]) - shift) * (std::copysign(1.0, d[0]) + shift / d[0]), g = e[0];
    for (int64_t k = 0; k + 1 < n; ++k) {
      const Rotation r = rotation(f, g);
      if (k > 0) e[k - 1] = r.r;
      f = r.c * d[k] + r.s * e[k];
      e[k] = r.c * e[k] - r.s * d[k];
      g = r.s * d[k + 1];
      d[k + 1] *= r.c;
      right->set(k, r);
      const Rotation l = rotation(f, g);
      d[k] = l.r;
      f = l.c * e[k] + l.s * d[k + 1];
      d[k + 1] = l.c * d[k + 1] - l.s * e[k];
      if (k + 2 < n) {
        g = l.s * e[k + 1];
        e[k + 1] *= l.c;
      }
      left->set(k, l);
    }
    e[n - 2] = f;
  }
  // Without a shift: small singular values keep their digits.
  void unshifted(double* d, double* e, int64_t n) const {
    double c = 1, old_c = 1, old_s = 0;
    for (int64_t k = 0; k + 1 < n; ++k) {
      const Rotation r = rotation(d[k] * c, e[k]);
      if (k > 0) e[k - 1] = old_s * r.r;
      const Rotation l = rotation(old_c * r.r, d[k + 1] * r.s);
      d[k] = l.r;
      c = r.c;
      old_c = l.c;
      old_s = l.s;
      right->set(k, r);
      left->set(k, l);
    }
    const double h = d[n - 1] * c;
    d[n - 1] = h * old_c;
    e[n - 2] = h * old_s;
  }
};

// Turns a block round: the same singular values, with left and right exchanged.
void turn(double* d, double* e, int64_t n) {
  std::reverse(d, d + n);
  std::reverse(e, e + n - 1);
}

}  // namespace

template <class R>
bool bidiagonal_qr(double* d, double* e, int64_t n, int64_t extra, R* left, int64_t left_stride, int64_t left_width,
                   R* right, int64_t right_stride, int64_t right_width) {
  if (n == 0) return true;
  // Where values are equal, what is beside them does not get below a few roundings of theirs.
  const double eps = sizeof(R) == 8 ? 4 * std::numeric_limits<R>::epsilon() : std::numeric_limits<R>::epsilon() / 2;
  if (extra) {
    // What sticks out on the right is rotated away upwards.
    double out = e[n - 1];
    for (int64_t i = n - 1; i >= 0; --i) {
      const Rotation g = rotation(d[i], out);
      d[i] = g.r;
      if (i > 0) {
        out = -g.s * e[i - 1];
        e[i - 1] *= g.c;
      }
      const R c = static_cast<R>(g.c), s = static_cast<R>(g.s);
      if (right) rotate_rows(right + i * right_stride, (n - i) * right_stride, right_width, 1, &c, &s);
    }
  }
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max({largest, std::abs(d[i]), i + 1 < n ? std::abs(e[i]) : 0});
  // Small numbers keep their digits, unless that takes too long.
  double nothing = std::max(1e-290, eps * largest * std::numeric_limits<double>::epsilon());
  const auto small = [&](int64_t i) {
    return !(std::abs(e[i]) > eps * std::sqrt(std::abs(d[i]) * std::abs(d[i + 1])) && std::abs(e[i]) > nothing);
  };
  Rotations one(n), two(n);
  int64_t steps = 60 * n, block_begin = -1, block_end = -1;
  bool is_turned = false;
  for (int64_t end = n - 1; end > 0;) {
    if (small(end - 1)) {
      e[--end] = 0;
      continue;
    }
    int64_t begin = end - 1;
    while (begin > 0 && !small(begin - 1)) --begin;
    if (begin > 0) e[begin - 1] = 0;
    if (--steps < 0) return false;
    if (steps < 40 * n) nothing = std::max(nothing, eps * largest);
    const int64_t count = end - begin + 1;
    double *db = d + begin, *eb = e + begin;
    // Large numbers first; kept as long as the block is the same.
    if (begin != block_begin || end != block_end) {
      is_turned = std::abs(db[0]) < std::abs(db[count - 1]);
      block_begin = begin;
      block_end = end;
    }
    if (is_turned) turn(db, eb, count);
    const Sweep sweep{is_turned ? &two : &one, is_turned ? &one : &two};
    double shift = smaller_singular_value(db[count - 2], eb[count - 2], db[count - 1]);
    // A shift would not get past numbers on the diagonal that are nothing beside the others; and one that is nothing
    // beside the first costs digits.
    double least = std::abs(db[0]), most = least;
    for (int64_t i = 1; i < count; ++i) {
      least = std::min(least, std::abs(db[i]));
      most = std::max({most, std::abs(db[i]), std::abs(eb[i - 1])});
    }
    constexpr double kEps = std::numeric_limits<double>::epsilon();
    if (!(least > kEps * most) || !(shift > std::sqrt(kEps) * std::abs(db[0]))) shift = 0;
    if (shift > 0)
      sweep.shifted(db, eb, count, shift);
    else
      sweep.unshifted(db, eb, count);
    if (is_turned) turn(db, eb, count);
    const int64_t first = is_turned ? end : begin, way = is_turned ? -1 : 1;
    if (left) one.apply(left + first * left_stride, way * left_stride, left_width, count - 1);
    if (right) two.apply(right + first * right_stride, way * right_stride, right_width, count - 1);
  }
  for (int64_t i = 0; i < n; ++i) {
    if (!(d[i] < 0)) continue;
    d[i] = -d[i];
    if (right)
      for (int64_t j = 0; j < right_width; ++j) right[i * right_stride + j] = -right[i * right_stride + j];
  }
  return true;
}

#define TESSERA_BIDIAGONAL(T) \
  template void reduce_to_bidiagonal<T>(T*, int64_t, int64_t, int64_t, double*, double*, T*, T*, int64_t, T*)
TESSERA_BIDIAGONAL(float);
TESSERA_BIDIAGONAL(double);
TESSERA_BIDIAGONAL(std::complex<float>);
TESSERA_BIDIAGONAL(std::complex<double>);
#define TESSERA_BIDIAGONAL_QR(R) \
  template bool bidiagonal_qr<R>(double*, double*, int64_t, int64_t, R*, int64_t, int64_t, R*, int64_t, int64_t)
TESSERA_BIDIAGONAL_QR(float);
TESSERA_BIDIAGONAL_QR(double);

}  // namespace tessera::cpu::internal
