#include "linalg/cpu/eigen/schur_sweep.h"

#include <algorithm>
#include <cmath>

#include "linalg/cpu/reflections.h"
#include "tensor/cpu/support/simd_move.h"

namespace tessera::cpu::columns {
namespace {

// A reflection of three elements as Kernels::reflect wants it for rows, from the left; of columns, from the right, the
// conjugates.
constexpr int64_t kFactors = 5;

template <class R>
R times_power(R x, int exponent) {
  return std::ldexp(x, exponent);
}
template <class R>
std::complex<R> times_power(std::complex<R> x, int exponent) {
  return {std::ldexp(x.real(), exponent), std::ldexp(x.imag(), exponent)};
}

// I - tau (1, v) (1, v)^H that brings x, of 2 or 3 elements, to (beta, 0, 0); x[0] becomes beta.
template <class T>
bool small_reflection(int64_t size, T* x, T* factors) {
  using R = Real<T>;
  const auto square = [x] {
    R sum = 0;
    for (int i = 0; i < 3; ++i) sum += real_part(x[i]) * real_part(x[i]) + imag_part(x[i]) * imag_part(x[i]);
    return sum;
  };
  if (size == 2) x[2] = T(0);
  if (x[1] == T(0) && x[2] == T(0) && imag_part(x[0]) == 0) return false;
  R squared = square();
  constexpr R kLow = kSafeMin<T> / (kEps<T> * kEps<T>);
  int exponent = 0;
  if (!(squared > kLow && squared < 1 / kLow)) {  // squares that may be none
    const R most = std::max({size_of(x[0]), size_of(x[1]), size_of(x[2])});
    if (std::isfinite(most)) exponent = std::ilogb(most);
    for (int i = 0; i < 3; ++i) x[i] = times_power(x[i], -exponent);
    squared = square();
  }
  const R beta = -std::copysign(std::sqrt(squared), real_part(x[0]));
  const T tau = (T(beta) - conjugate(x[0])) / beta, inverse = T(1) / (x[0] - T(beta));  // of the adjoint
  const T v1 = times(x[1], inverse), v2 = times(x[2], inverse);
  factors[0] = conjugate(v1);
  factors[1] = conjugate(v2);
  factors[2] = tau;
  factors[3] = times(tau, v1);
  factors[4] = times(tau, v2);
  x[0] = T(std::ldexp(beta, exponent));
  return true;
}

template <class T>
class Chain {
  using R = Real<T>;
  using C = std::complex<R>;

 public:
  Chain(const SchurProblem<T>& p, int64_t lo, int64_t hi, const std::vector<Shifts<R>>& shifts)
      : p_(p),
        h_(in_columns(p.h, p.ld)),
        lo_(lo),
        hi_(hi),
        top_(p.form ? 0 : lo),
        right_(p.form ? p.n : hi),
        shifts_(shifts),
        bulges_(static_cast<int64_t>(shifts.size())),
        window_(3 * bulges_ + kAdvance),
        next_(shifts.size()),
        sequences_(shifts.size()),
        conjugates_(shifts.size()),
        factors_(window_ * kFactors * bulges_),
        conjugated_(kIsComplex<T> ? window_ * kFactors * bulges_ : 0),
        block_(window_ * kLanes) {}

  void run() {
    std::fill(next_.begin(), next_.end(), lo_);
    if (bulges_ == 1) next_[0] = first_row(shifts_[0]);
    first_ = next_[0];
    while (next_.back() < hi_ - 1) {
      // From the column that the last bulge stands in.
      const int64_t begin = std::max(lo_, next_.back() - 1), end = std::min(hi_, begin + window_);
      int64_t limit = end == hi_ ? hi_ - 1 : end - 3;
      for (int64_t b = 0; b < bulges_; ++b) {
        chase(b, begin, end, limit);
        if (next_[static_cast<size_t>(b)] < hi_ - 1) limit = next_[static_cast<size_t>(b)] - 3;
      }
      update_outside(begin, end);
    }
  }

 private:
  static constexpr int64_t kAdvance = 16;  // rows that the chain comes forward in a window
  static constexpr int64_t kLanes = 64;    // columns that are turned into rows together

  // (1, v1, v2) times (H - s1)(H - s2) e_k, up to a factor.
  void start(int64_t k, const Shifts<R>& s, T* x) const {
    const T h00 = h_(k, k), h10 = h_(k + 1, k), h01 = h_(k, k + 1), h11 = h_(k + 1, k + 1);
    const T h21 = k + 2 < hi_ ? h_(k + 2, k + 1) : T(0);
    const C a = C(h00) - s.first, b = C(h00) - s.second;
    const R scale = size_of(b) + size_of(h10);
    if (scale == 0) {
      x[0] = x[1] = x[2] = T(0);
      return;
    }
    const T low = h10 / scale;
    const C product = times(a, b / scale), sum = C(h00) + C(h11) - s.first - s.second;
    if constexpr (kIsComplex<T>) {
      x[0] = times(low, h01) + product;
      x[1] = times(low, sum);
    } else {
      x[0] = low * h01 + product.real();
      x[1] = low * sum.real();
    }
    x[2] = times(low, h21);
    const R most = size_of(x[0]) + size_of(x[1]) + size_of(x[2]);
    if (most > 0)
      for (int i = 0; i < 3; ++i) x[i] /= most;
  }

  // Two small subdiagonal elements in a row let a single bulge begin below them.
  int64_t first_row(const Shifts<R>& s) const {
    for (int64_t k = hi_ - 3; k > lo_; --k) {
      T x[3] = {};
      start(k, s, x);
      const R left = size_of(h_(k, k - 1)) * (size_of(x[1]) + size_of(x[2]));
      const R here = size_of(h_(k - 1, k - 1)) + size_of(h_(k, k)) + size_of(h_(k + 1, k + 1));
      if (left <= kEps<T> * size_of(x[0]) * here) return k;
    }
    return lo_;
  }

  T* factors(int64_t bulge) const { return factors_.get() + bulge * window_ * kFactors; }

  // Reflections of this bulge up to row `limit`, of elements in rows and columns [begin, end) alone.
  void chase(int64_t bulge, int64_t begin, int64_t end, int64_t limit) {
    const auto at = static_cast<size_t>(bulge);
    const int64_t from = next_[at];
    T* f = factors(bulge);
    int64_t k = from;
    for (; k < limit; ++k, f += kFactors) {
      const int64_t size = std::min<int64_t>(3, hi_ - k);
      const bool starts = k == first_;
      T x[3] = {};
      if (starts)
        start(k, shifts_[at], x);
      else
        for (int64_t i = 0; i < size; ++i) x[i] = h_(k + i, k - 1);
      if (!small_reflection(size, x, f)) {
        std::fill_n(f, kFactors, T(0));
        continue;
      }
      if (!starts) {
        h_(k, k - 1) = x[0];
        for (int64_t i = 1; i < size; ++i) h_(k + i, k - 1) = T(0);
      } else if (k > lo_) {
        h_(k, k - 1) -= times(f[2], h_(k, k - 1));
      }
      reflect_inside(k, size, begin, end, f);
    }
    const bool pair = k == hi_ - 1 && k > from;
    next_[at] = std::max(from, k);
    sequences_[at] = {from - begin, std::max<int64_t>(0, k - from - pair), pair, factors(bulge)};
  }

  void reflect_inside(int64_t k, int64_t size, int64_t begin, int64_t end, const T* f) {
    T* h = p_.h + k;
    if (size == 3) {
      for (int64_t j = k; j < end; ++j) {
        T* x = h + j * p_.ld;
        const T sum = x[0] + times(f[0], x[1]) + times(f[1], x[2]);
        x[0] -= times(f[2], sum);
        x[1] -= times(f[3], sum);
        x[2] -= times(f[4], sum);
      }
    } else {
      for (int64_t j = k; j < end; ++j) {
        T* x = h + j * p_.ld;
        const T sum = x[0] + times(f[0], x[1]);
        x[0] -= times(f[2], sum);
        x[1] -= times(f[3], sum);
      }
    }
    T g[kFactors];
    for (int64_t i = 0; i < kFactors; ++i) g[i] = conjugate(f[i]);
    const Reflections3<T> one{0, size == 3 ? 1 : 0, size == 2, g};
    kernels<T>().reflect(std::min(k + 4, end) - begin, p_.h + k * p_.ld + begin, p_.ld, &one, 1);
  }

  // The same reflections of the columns behind `end` and the rows before `begin`, and of z.
  void update_outside(int64_t begin, int64_t end) {
    int64_t used = 0;
    for (int64_t b = 0; b < bulges_; ++b) {
      const Reflections3<T>& s = sequences_[static_cast<size_t>(b)];
      if (s.count == 0 && !s.pair) continue;
      conjugates_[static_cast<size_t>(used)] = s;
      if constexpr (kIsComplex<T>) {
        T* c = conjugated_.get() + b * window_ * kFactors;
        for (int64_t i = 0; i < (s.count + s.pair) * kFactors; ++i) c[i] = std::conj(s.factors[i]);
        conjugates_[static_cast<size_t>(used)].factors = c;
      }
      sequences_[static_cast<size_t>(used++)] = s;
    }
    if (used == 0) return;
    for (int64_t j = end; j < right_; j += kLanes)
      reflect_rows(begin, end, p_.h + j * p_.ld, std::min(kLanes, right_ - j), used);
    const Kernels<T>& k = kernels<T>();
    k.reflect(begin - top_, p_.h + begin * p_.ld + top_, p_.ld, conjugates_.data(), used);
    if (p_.z) k.reflect(p_.z_rows, p_.z + begin * p_.z_ld, p_.z_ld, conjugates_.data(), used);
  }

  // Rows [begin, end) of these columns: as the columns of a block in which they lie side by side.
  void reflect_rows(int64_t begin, int64_t end, T* columns, int64_t count, int64_t used) {
    T* block = block_.get();
    const int64_t rows = end - begin;
    flip(rows, count, columns + begin, p_.ld, block, kLanes);
    kernels<T>().reflect(count, block, kLanes, sequences_.data(), used);
    flip(count, rows, block, kLanes, columns + begin, p_.ld);
  }
  // to(j, i) = from(i, j) for m rows and n columns of `from`; both in columns.
  static void flip(int64_t m, int64_t n, const T* from, int64_t from_ld, T* to, int64_t to_ld) {
    int64_t rows = 0, cols = 0;
    if constexpr (sizeof(T) <= 8) {
      constexpr int64_t kTile = sizeof(T) == 4 ? 16 : 8, kSize = sizeof(T);
      const auto tiles = sizeof(T) == 4 ? transpose_tiles4 : transpose_tiles8;
      rows = m / kTile * kTile;
      cols = n / kTile * kTile;
      if (cols > 0)
        for (int64_t i = 0; i < rows; i += kTile)
          tiles(reinterpret_cast<char*>(to + i * to_ld), to_ld * kSize, reinterpret_cast<const char*>(from + i),
                from_ld * kSize, cols / kTile);
    }
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = j < cols ? rows : 0; i < m; ++i) to[j + i * to_ld] = from[i + j * from_ld];
  }

  const SchurProblem<T>& p_;
  const Matrix<T> h_;
  const int64_t lo_, hi_, top_, right_;
  const std::vector<Shifts<R>>& shifts_;
  const int64_t bulges_, window_;
  int64_t first_ = 0;
  std::vector<int64_t> next_;  // of each bulge: the row of its next reflection
  std::vector<Reflections3<T>> sequences_, conjugates_;
  const ScratchArray<T> factors_, conjugated_, block_;
};

}  // namespace

template <class T>
void sweep(const SchurProblem<T>& p, int64_t lo, int64_t hi, const std::vector<Shifts<Real<T>>>& shifts) {
  Chain<T>(p, lo, hi, shifts).run();
}

#define TESSERA_SWEEP(T) \
  template void sweep(const SchurProblem<T>&, int64_t, int64_t, const std::vector<Shifts<Real<T>>>&);
TESSERA_SWEEP(float)
TESSERA_SWEEP(double)
TESSERA_SWEEP(std::complex<float>)
TESSERA_SWEEP(std::complex<double>)
#undef TESSERA_SWEEP

}  // namespace tessera::cpu::columns
