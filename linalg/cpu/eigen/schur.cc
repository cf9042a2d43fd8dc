#include "linalg/cpu/eigen/schur.h"

#include "linalg/cpu/eigen/schur_blocks.h"
#include "linalg/cpu/eigen/schur_deflation.h"
#include "linalg/cpu/eigen/schur_sweep.h"
#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu::columns {
namespace {

// Steps for one eigenvalue before it is given up; every tenth without success takes a shift from elsewhere.
constexpr int64_t kMostSteps = 300, kExceptional = 10;
// After so many, what is nothing beside the largest element is nothing: where the diagonal is (nearly) zero, neighbours
// there say little. That is no more than rounding does to the matrix.
constexpr int64_t kPatience = 20;
// Where more than this part of a window was found, the next one may have as many.
constexpr int64_t kFoundMany = 7;

// Pairs of shifts for a block of so many rows, and among how many of its last eigenvalues those are looked for that
// are found already, where that is worth it.
struct Effort {
  int64_t bulges, window;
};
constexpr int64_t kMostBulges = 24;
Effort effort_for(int64_t rows) {
  if (rows < 60) return {1, 0};
  if (rows < 150) return {2, 0};
  if (rows < 200) return {4, 0};
  if (rows < 400) return {12, 32};
  return rows < 900 ? Effort{16, 48} : Effort{kMostBulges, 64};
}

template <class T>
class Iteration {
  using R = Real<T>;
  using C = std::complex<R>;
  // The smallest block that is an eigenvalue, or two of a pair.
  static constexpr int64_t kSmallest = kIsComplex<T> ? 1 : 2;

 public:
  explicit Iteration(const SchurProblem<T>& p)
      : p_(p), h_(in_columns(p.h, p.ld)), tiny_(kSafeMin<T> * (static_cast<R>(p.hi - p.lo) / kEps<T>)) {}

  int64_t run() {
    int64_t hi = p_.hi;
    for (int64_t step = 0; hi > p_.lo; ++step) {
      if (step == kMostSteps) return hi;
      const int64_t lo = block_start(hi, step < kPatience ? tiny_ : kEps<T> * largest(hi));
      if (hi - lo > kSmallest) {
        step_of(lo, hi, step);
        continue;
      }
      if (hi - lo == 1)
        p_.w[lo] = h_(lo, lo);
      else if constexpr (!kIsComplex<T>)
        standardize_block(p_, lo);
      hi = lo;
      step = -1;
    }
    return 0;
  }

 private:
  // Where the last block that does not fall apart begins.
  int64_t block_start(int64_t hi, R tiny) const {
    for (int64_t k = hi - 1; k > p_.lo; --k) {
      if (!is_negligible(h_, k, p_.lo, p_.hi, tiny)) continue;
      h_(k, k - 1) = T(0);
      return k;
    }
    return p_.lo;
  }

  // The size of the largest element in rows and columns [lo, hi).
  R largest(int64_t hi) const {
    R most = tiny_;
    for (int64_t j = p_.lo; j < hi; ++j)
      for (int64_t i = p_.lo; i < std::min(j + 2, hi); ++i) most = std::max(most, size_of(h_(i, j)));
    return most;
  }

  // Brings hi nearer, or the block nearer to that.
  void step_of(int64_t lo, int64_t& hi, int64_t& step) {
    shifts_.clear();
    if (step % kExceptional == kExceptional - 1) {
      const bool bottom = step % (2 * kExceptional) == kExceptional - 1 || hi - lo < 3;
      const R s = bottom ? size_of(h_(hi - 1, hi - 2)) + (hi - lo > 2 ? size_of(h_(hi - 2, hi - 3)) : R(0))
                         : size_of(h_(lo + 1, lo)) + size_of(h_(lo + 2, lo + 1));
      const C at = C(bottom ? h_(hi - 1, hi - 1) : h_(lo, lo)) + C(R(0.75) * s);
      const C apart(0, R(0.66) * s);
      shifts_.push_back({at + apart, at - apart});
    } else {
      const Effort effort = effort_for(hi - lo);
      int64_t known = 0;  // eigenvalues of a window, in p_.w before hi
      if (effort.window > 0) {
        const int64_t found = deflate_early(p_, lo, hi, effort.window, tiny_);
        if (found > 0) {
          hi -= found;
          step = -1;
          if (found * kFoundMany > effort.window) return;
        }
        if (found >= 0) known = std::min(effort.window - found, 2 * effort.bulges);
      }
      if (known >= effort.bulges)
        take_shifts(known, p_.w + hi - known);
      else
        choose_shifts(lo, hi);
    }
    sweep(p_, lo, hi, shifts_);
  }

  // Pairs stay together.
  void take_shifts(int64_t n, const C* w) {
    C alone[2 * kMostBulges];
    int64_t singles = 0;
    for (int64_t i = !kIsComplex<T> && w[0].imag() < 0; i < n; ++i) {
      if (!kIsComplex<T> && w[i].imag() != 0) {
        shifts_.push_back({w[i], w[i + 1]});
        ++i;
      } else {
        alone[singles++] = w[i];
      }
    }
    for (int64_t i = 0; i + 1 < singles; i += 2) shifts_.push_back({alone[i], alone[i + 1]});
    if (shifts_.empty()) shifts_.push_back({alone[0], alone[0]});
  }

  // The eigenvalues of the last rows and columns.
  void choose_shifts(int64_t lo, int64_t hi) {
    const int64_t n = 2 * effort_for(hi - lo).bulges;
    C w[2 * kMostBulges];
    if (n > 2 && eigenvalues_of(hi - n, n, w)) return take_shifts(n, w);
    two_eigenvalues(hi - 2, w);
    // Of a block of two rows, the product with both is zero: there would be nothing to begin with.
    const C last = h_(hi - 1, hi - 1);
    if (hi - lo == 2) w[0] = w[1] = size_of(w[0] - last) <= size_of(w[1] - last) ? w[0] : w[1];
    shifts_.push_back({w[0], w[1]});
  }

  bool eigenvalues_of(int64_t from, int64_t n, C* w) const {
    const internal::ScratchArray<T> copy(n * n);
    for (int64_t j = 0; j < n; ++j) std::copy_n(p_.h + (from + j) * p_.ld + from, n, copy.get() + j * n);
    return schur(SchurProblem<T>{n, 0, n, copy.get(), n, false, nullptr, 0, 0, w}) == 0;
  }

  // Of the block of rows k, k + 1. Of real ones, the one next to the last element twice.
  void two_eigenvalues(int64_t k, C* w) const {
    const T a = h_(k, k), b = h_(k, k + 1), c = h_(k + 1, k), d = h_(k + 1, k + 1);
    const R s = size_of(a) + size_of(b) + size_of(c) + size_of(d);
    w[0] = w[1] = C(0);
    if (s == 0) return;
    const T middle = (a / s + d / s) * R(0.5), half = (a / s - d / s) * R(0.5);
    const T squared = times(half, half) + times(b / s, c / s);
    if constexpr (kIsComplex<T>) {
      const C root = std::sqrt(squared);
      w[0] = (middle + root) * s;
      w[1] = (middle - root) * s;
    } else {
      const R root = std::sqrt(std::abs(squared));
      if (squared < 0) {
        w[0] = {middle * s, root * s};
        w[1] = std::conj(w[0]);
      } else {
        const R one = middle + root, two = middle - root;
        w[0] = w[1] = (std::abs(one - d / s) <= std::abs(two - d / s) ? one : two) * s;
      }
    }
  }

  const SchurProblem<T>& p_;
  const Matrix<T> h_;
  const R tiny_;
  std::vector<Shifts<R>> shifts_;
};

}  // namespace

template <class T>
void standardize_block(const SchurProblem<T>& p, int64_t k) {
  const Matrix<T> h = in_columns(p.h, p.ld);
  const Turn<T> q = standardize(h(k, k), h(k, k + 1), h(k + 1, k), h(k + 1, k + 1), p.w + k);
  const Kernels<T>& f = kernels<T>();
  if (p.form) {
    for (int64_t j = k + 2; j < p.n; ++j) {
      const T x = h(k, j), y = h(k + 1, j);
      h(k, j) = q.c * x + q.s * y;
      h(k + 1, j) = q.c * y - q.s * x;
    }
    f.rotate(k, p.h + k * p.ld, p.h + (k + 1) * p.ld, q.c, q.s);
  }
  if (p.z) f.rotate(p.z_rows, p.z + k * p.z_ld, p.z + (k + 1) * p.z_ld, q.c, q.s);
}
template void standardize_block(const SchurProblem<float>&, int64_t);
template void standardize_block(const SchurProblem<double>&, int64_t);

template <class T>
int64_t schur(const SchurProblem<T>& p) {
  for (int64_t i = 0; i < p.n; ++i)
    if (i < p.lo || i >= p.hi) p.w[i] = p.h[i + i * p.ld];
  return Iteration<T>(p).run();
}

template int64_t schur(const SchurProblem<float>&);
template int64_t schur(const SchurProblem<double>&);
template int64_t schur(const SchurProblem<std::complex<float>>&);
template int64_t schur(const SchurProblem<std::complex<double>>&);

}  // namespace tessera::cpu::columns
