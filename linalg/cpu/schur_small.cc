#include "linalg/cpu/schur_small.h"

#include <algorithm>

namespace tessera::cpu::columns {
namespace {

// Steps for one eigenvalue before it is given up; every tenth without success takes a shift from elsewhere.
constexpr int64_t kMostSteps = 300, kExceptional = 10;

// What is as small as nothing in a matrix of n rows.
template <class T>
Real<T> nothing(int64_t n) {
  return kSafeMin<T> * (static_cast<Real<T>>(n) / kEps<T>);
}

// The eigenvalue of the 2 x 2 block [a, b; c, d] next to d.
template <class R>
std::complex<R> wilkinson_shift(std::complex<R> a, std::complex<R> b, std::complex<R> c, std::complex<R> d) {
  const std::complex<R> u = std::sqrt(b) * std::sqrt(c);
  const R s = size_of(u);
  if (s == 0) return d;
  const std::complex<R> x = (a - d) * R(0.5);
  const R most = std::max(s, size_of(x));
  std::complex<R> y = most * std::sqrt((x / most) * (x / most) + (u / most) * (u / most));
  if (size_of(x) > 0) {
    const std::complex<R> direction = x / size_of(x);
    if (direction.real() * y.real() + direction.imag() * y.imag() < 0) y = -y;
  }
  return d - u * (u / (x + y));
}

// (1, v1, v2) times (h - s1)(h - s2) e_k, up to a factor: where a double step begins.
template <class R>
struct Start {
  R v[3];
};

template <class R>
Start<R> double_start(Matrix<R> h, int64_t k, R re1, R im1, R re2, R im2) {
  const R h00 = h(k, k), h10 = h(k + 1, k), h01 = h(k, k + 1), h11 = h(k + 1, k + 1), h21 = h(k + 2, k + 1);
  const R s = std::abs(h00 - re2) + std::abs(im2) + std::abs(h10);
  const R low = h10 / s;
  Start<R> r{{low * h01 + (h00 - re1) * ((h00 - re2) / s) - im1 * (im2 / s), low * (h00 + h11 - re1 - re2), low * h21}};
  const R sum = std::abs(r.v[0]) + std::abs(r.v[1]) + std::abs(r.v[2]);
  for (R& x : r.v) x /= sum;
  return r;
}

// Rows [k, k + 3) of columns [from, to), from the left.
template <class R>
void reflect_rows3(R* h, int64_t ld, int64_t k, int64_t from, int64_t to, const R v[2], const R t[3]) {
  for (int64_t j = from; j < to; ++j) {
    R* x = h + j * ld + k;
    const R sum = x[0] + v[0] * x[1] + v[1] * x[2];
    x[0] -= sum * t[0];
    x[1] -= sum * t[1];
    x[2] -= sum * t[2];
  }
}

// A reflection with first element 1 that brings x to (beta, 0, 0): x becomes (beta, v1, v2). Returns tau.
template <class R>
R small_reflection(int64_t n, R* x) {
  const R rest = n == 3 ? std::hypot(x[1], x[2]) : std::abs(x[1]);
  if (rest == 0) return 0;
  const R beta = -std::copysign(std::hypot(x[0], rest), x[0]);
  const R tau = (beta - x[0]) / beta, f = 1 / (x[0] - beta);
  x[0] = beta;
  x[1] *= f;
  if (n == 3) x[2] *= f;
  return tau;
}

template <class R>
class DoubleShifts {
 public:
  explicit DoubleShifts(const SchurProblem<R>& p) : p_(p), h_(in_columns(p.h, p.ld)), tiny_(nothing<R>(p.hi - p.lo)) {}

  int64_t run() {
    int64_t hi = p_.hi;
    while (hi > p_.lo) {
      int64_t lo = p_.lo;
      bool found = false;
      for (int64_t step = 0; step < kMostSteps; ++step) {
        lo = block_start(lo, hi);
        if (lo >= hi - 2) {
          found = true;
          break;
        }
        sweep(lo, hi, step);
      }
      if (!found) return hi;
      if (lo == hi - 1)
        p_.w[lo] = h_(lo, lo);
      else
        split(lo);
      hi = lo;
    }
    return 0;
  }

 private:
  // Where the last block that does not fall apart begins.
  int64_t block_start(int64_t lo, int64_t hi) {
    for (int64_t k = hi - 1; k > lo; --k) {
      if (!is_negligible(h_, k, p_.lo, p_.hi, tiny_)) continue;
      h_(k, k - 1) = 0;
      return k;
    }
    return lo;
  }

  // A turn of rows and columns k, k + 1, but for the 2 x 2 block itself.
  void turn(int64_t k, Turn<R> q) {
    const Kernels<R>& f = kernels<R>();
    if (p_.form) {
      for (int64_t j = k + 2; j < p_.n; ++j) {
        const R x = h_(k, j), y = h_(k + 1, j);
        h_(k, j) = q.c * x + q.s * y;
        h_(k + 1, j) = q.c * y - q.s * x;
      }
      f.rotate(k, p_.h + k * p_.ld, p_.h + (k + 1) * p_.ld, q.c, q.s);
    }
    if (p_.z) f.rotate(p_.z_rows, p_.z + k * p_.z_ld, p_.z + (k + 1) * p_.z_ld, q.c, q.s);
  }
  void split(int64_t k) { turn(k, standardize(h_(k, k), h_(k, k + 1), h_(k + 1, k), h_(k + 1, k + 1), p_.w + k)); }

  void choose_shifts(int64_t lo, int64_t hi, int64_t step, R& re1, R& im1, R& re2, R& im2) const {
    R a, b, c, d;
    if (step % kExceptional == kExceptional - 1) {
      const bool bottom = step % (2 * kExceptional) == kExceptional - 1;
      const R s = bottom ? std::abs(h_(hi - 1, hi - 2)) + std::abs(h_(hi - 2, hi - 3))
                         : std::abs(h_(lo + 1, lo)) + std::abs(h_(lo + 2, lo + 1));
      a = d = R(0.75) * s + (bottom ? h_(hi - 1, hi - 1) : h_(lo, lo));
      b = R(-0.4375) * s;
      c = s;
    } else {
      a = h_(hi - 2, hi - 2);
      b = h_(hi - 2, hi - 1);
      c = h_(hi - 1, hi - 2);
      d = h_(hi - 1, hi - 1);
    }
    const R s = std::abs(a) + std::abs(b) + std::abs(c) + std::abs(d);
    re1 = im1 = re2 = im2 = 0;
    if (s == 0) return;
    const R middle = (a / s + d / s) / 2, half = (a / s - d / s) / 2, squared = half * half + (b / s) * (c / s);
    const R root = std::sqrt(std::abs(squared));
    if (squared < 0) {
      re1 = re2 = middle * s;
      im1 = root * s;
      im2 = -im1;
    } else {  // the one next to d, twice
      const R one = middle + root, two = middle - root;
      re1 = re2 = (std::abs(one - d / s) <= std::abs(two - d / s) ? one : two) * s;
    }
  }

  void sweep(int64_t lo, int64_t hi, int64_t step) {
    R re1, im1, re2, im2;
    choose_shifts(lo, hi, step, re1, im1, re2, im2);
    // Two small subdiagonal elements in a row let it begin below them.
    int64_t k = hi - 3;
    Start<R> start = double_start(h_, k, re1, im1, re2, im2);
    for (; k > lo; start = double_start(h_, --k, re1, im1, re2, im2)) {
      const R left = std::abs(h_(k, k - 1)) * (std::abs(start.v[1]) + std::abs(start.v[2]));
      const R here = std::abs(h_(k - 1, k - 1)) + std::abs(h_(k, k)) + std::abs(h_(k + 1, k + 1));
      if (left <= kEps<R> * std::abs(start.v[0]) * here) break;
    }
    const int64_t first = k;
    for (; k < hi - 1; ++k) {
      const int64_t size = std::min<int64_t>(3, hi - k);
      R x[3] = {start.v[0], start.v[1], start.v[2]};
      if (k > first) {
        for (int64_t i = 0; i < size; ++i) x[i] = h_(k + i, k - 1);
      }
      const R tau = small_reflection(size, x);
      if (k > first) {
        h_(k, k - 1) = x[0];
        for (int64_t i = 1; i < size; ++i) h_(k + i, k - 1) = 0;
      } else if (k > lo) {
        h_(k, k - 1) *= 1 - tau;
      }
      if (tau != 0) reflect(k, size, lo, hi, x + 1, tau);
    }
  }

  void reflect(int64_t k, int64_t size, int64_t lo, int64_t hi, const R* rest, R tau) {
    const Kernels<R>& f = kernels<R>();
    const int64_t top = p_.form ? 0 : lo, right = p_.form ? p_.n : hi, bottom = std::min(k + 4, hi);
    if (size == 3) {
      const R v[2] = {rest[0], rest[1]}, t[3] = {tau, tau * v[0], tau * v[1]};
      reflect_rows3(p_.h, p_.ld, k, k, right, v, t);
      f.reflect3(bottom - top, p_.h + k * p_.ld + top, p_.ld, v, t);
      if (p_.z) f.reflect3(p_.z_rows, p_.z + k * p_.z_ld, p_.z_ld, v, t);
      return;
    }
    const R v = rest[0];
    const auto mix = [&](R& x, R& y) {
      const R sum = (x + v * y) * tau;
      x -= sum;
      y -= sum * v;
    };
    for (int64_t j = k; j < right; ++j) mix(h_(k, j), h_(k + 1, j));
    for (int64_t i = top; i < hi; ++i) mix(h_(i, k), h_(i, k + 1));
    if (p_.z)
      for (int64_t i = 0; i < p_.z_rows; ++i) mix(p_.z[i + k * p_.z_ld], p_.z[i + (k + 1) * p_.z_ld]);
  }

  const SchurProblem<R>& p_;
  const Matrix<R> h_;
  const R tiny_;
};

// Rotations: (x, y) = (c x + s y, c y - conj(s) x) brings (f, g) to (r, 0).
template <class R>
struct Rotation {
  R c = 1;
  std::complex<R> s = 0, r;

  Rotation(const std::complex<R>& f, const std::complex<R>& g) : r(f) {
    const R g_size = std::hypot(g.real(), g.imag()), f_size = std::hypot(f.real(), f.imag());
    if (g_size == 0) return;
    const R length = std::hypot(f_size, g_size);
    const std::complex<R> direction = f_size == 0 ? std::complex<R>(1) : f / f_size;
    c = f_size / length;
    s = times(direction, std::conj(g) / length);
    r = direction * length;
  }
};

template <class R>
class SingleShifts {
  using C = std::complex<R>;

 public:
  explicit SingleShifts(const SchurProblem<C>& p) : p_(p), h_(in_columns(p.h, p.ld)), tiny_(nothing<C>(p.hi - p.lo)) {}

  int64_t run() {
    int64_t hi = p_.hi;
    while (hi > p_.lo) {
      int64_t lo = p_.lo;
      bool found = false;
      for (int64_t step = 0; step < kMostSteps; ++step) {
        lo = block_start(lo, hi);
        if (lo == hi - 1) {
          found = true;
          break;
        }
        sweep(lo, hi, step);
      }
      if (!found) return hi;
      p_.w[lo] = h_(lo, lo);
      hi = lo;
    }
    return 0;
  }

 private:
  int64_t block_start(int64_t lo, int64_t hi) {
    for (int64_t k = hi - 1; k > lo; --k) {
      if (!is_negligible(h_, k, p_.lo, p_.hi, tiny_)) continue;
      h_(k, k - 1) = 0;
      return k;
    }
    return lo;
  }

  C choose_shift(int64_t lo, int64_t hi, int64_t step) const {
    if (step % (2 * kExceptional) == kExceptional - 1)
      return h_(hi - 1, hi - 1) + R(0.75) * size_of(h_(hi - 1, hi - 2));
    if (step % (2 * kExceptional) == 2 * kExceptional - 1) return h_(lo, lo) + R(0.75) * size_of(h_(lo + 1, lo));
    return wilkinson_shift(h_(hi - 2, hi - 2), h_(hi - 2, hi - 1), h_(hi - 1, hi - 2), h_(hi - 1, hi - 1));
  }

  void sweep(int64_t lo, int64_t hi, int64_t step) {
    const Kernels<C>& f = kernels<C>();
    const C shift = choose_shift(lo, hi, step);
    const int64_t top = p_.form ? 0 : lo, right = p_.form ? p_.n : hi;
    C x = h_(lo, lo) - shift, y = h_(lo + 1, lo);
    for (int64_t k = lo; k < hi - 1; ++k) {
      if (k > lo) {
        x = h_(k, k - 1);
        y = h_(k + 1, k - 1);
      }
      const Rotation<R> q(x, y);
      if (k > lo) {
        h_(k, k - 1) = q.r;
        h_(k + 1, k - 1) = 0;
      }
      for (int64_t j = k; j < right; ++j) {
        const C a = h_(k, j), b = h_(k + 1, j);
        h_(k, j) = q.c * a + times(q.s, b);
        h_(k + 1, j) = q.c * b - times(std::conj(q.s), a);
      }
      // From the right with the adjoint: x = c x + conj(s) y, y = c y - s x.
      f.rotate(std::min(k + 3, hi) - top, p_.h + k * p_.ld + top, p_.h + (k + 1) * p_.ld + top, q.c, std::conj(q.s));
      if (p_.z) f.rotate(p_.z_rows, p_.z + k * p_.z_ld, p_.z + (k + 1) * p_.z_ld, q.c, std::conj(q.s));
    }
  }

  const SchurProblem<C>& p_;
  const Matrix<C> h_;
  const R tiny_;
};

}  // namespace

template <class R>
Turn<R> standardize(R& a, R& b, R& c, R& d, std::complex<R>* w) {
  Turn<R> q{1, 0};
  const auto opposite = [](R x, R y) { return std::signbit(x) != std::signbit(y); };
  if (c == 0) {
    // As it should be.
  } else if (b == 0) {
    q = {0, 1};
    std::swap(a, d);
    b = -c;
    c = 0;
  } else if (a != d || !opposite(b, c)) {
    const R half = (a - d) / 2, big = std::max(std::abs(b), std::abs(c));
    const R small = std::min(std::abs(b), std::abs(c)) * (opposite(b, c) ? R(-1) : R(1));
    const R scale = std::max(std::abs(half), big), z = half / scale * half + big / scale * small;
    if (z >= 4 * kEps<R>) {  // real and apart
      const R shift = half + std::copysign(std::sqrt(scale) * std::sqrt(z), half), length = std::hypot(c, shift);
      a = d + shift;
      d -= big / shift * small;
      q = {shift / length, c / length};
      b -= c;
      c = 0;
    } else {  // complex, or nearly equal: the diagonal is made equal
      const R sum = b + c, length = std::hypot(sum, a - d);
      q.c = std::sqrt((1 + std::abs(sum) / length) / 2);
      q.s = -(half / (length * q.c)) * std::copysign(R(1), sum);
      const R aa = a * q.c + b * q.s, bb = b * q.c - a * q.s, cc = c * q.c + d * q.s, dd = d * q.c - c * q.s;
      const R middle = (aa * q.c + cc * q.s + (dd * q.c - bb * q.s)) / 2;
      b = bb * q.c + dd * q.s;
      c = cc * q.c - aa * q.s;
      a = d = middle;
      if (c != 0 && b == 0) {
        b = -c;
        c = 0;
        q = {-q.s, q.c};
      } else if (c != 0 && !opposite(b, c)) {  // real after all
        const R rb = std::sqrt(std::abs(b)), rc = std::sqrt(std::abs(c)), f = 1 / std::sqrt(std::abs(b + c));
        const R apart = std::copysign(rb * rc, c);
        a = middle + apart;
        d = middle - apart;
        b -= c;
        c = 0;
        const R c1 = rb * f, s1 = rc * f;
        q = {q.c * c1 - q.s * s1, q.c * s1 + q.s * c1};
      }
    }
  }
  const R im = c == 0 ? R(0) : std::sqrt(std::abs(b)) * std::sqrt(std::abs(c));
  w[0] = {a, im};
  w[1] = {d, -im};
  return q;
}

template <class R>
int64_t schur_by_double_shifts(const SchurProblem<R>& p) {
  return DoubleShifts<R>(p).run();
}
template <class R>
int64_t schur_by_single_shifts(const SchurProblem<std::complex<R>>& p) {
  return SingleShifts<R>(p).run();
}

#define TESSERA_SMALL_SCHUR(R)                                     \
  template Turn<R> standardize(R&, R&, R&, R&, std::complex<R>*);  \
  template int64_t schur_by_double_shifts(const SchurProblem<R>&); \
  template int64_t schur_by_single_shifts(const SchurProblem<std::complex<R>>&);
TESSERA_SMALL_SCHUR(float)
TESSERA_SMALL_SCHUR(double)
#undef TESSERA_SMALL_SCHUR

}  // namespace tessera::cpu::columns
