#include "linalg/cpu/eigen/schur_sweep.h"

#include <algorithm>
#include <cmath>

#include "linalg/cpu/eigen/small_reflection.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd_move.h"

namespace tessera::cpu::columns {
namespace {

using internal::ScratchArray;

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
        window_(3 * bulges_ + kFar + 1),
        next_(shifts.size(), lo),
        factors_(window_ * kFactors * bulges_),
        conjugated_(kIsComplex<T> ? window_ * kFactors * bulges_ : 0) {}

  void run() {
    first_ = lo_;
    if (bulges_ == 1) first_ = next_[0] = first_row(shifts_[0]);
    while (next_.back() < hi_ - 1) {
      // From the column that the last bulge stands in.
      begin_ = std::max(lo_, next_.back() - 1);
      end_ = std::min(hi_, begin_ + window_);
      used_ = 0;
      sequences_.clear();
      conjugates_.clear();
      for (int64_t b = 0; b < bulges_; b += kGroup) advance(b, std::min(bulges_, b + kGroup));
      if (!sequences_.empty()) update_outside();
    }
  }

 private:
  // Groups of bulges come forward one after the other, in small windows in which reflections are applied one by one;
  // all of them so many rows within a larger window, before what is outside of that follows.
  static constexpr int64_t kGroup = 4, kNear = 16, kFar = 3 * kNear;
  static constexpr int64_t kLanes = 64;   // columns that are turned into rows together
  static constexpr int64_t kStrip = 128;  // rows that are brought up to date together

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

  // Bulges [first, last), as far as the window and the bulge in front of them let them.
  void advance(int64_t first, int64_t last) {
    for (;;) {
      const int64_t begin = std::max(begin_, next_[static_cast<size_t>(last - 1)] - 1),
                    end = std::min(end_, begin + 3 * (last - first) + kNear + 1);
      int64_t limit = end == hi_ ? hi_ - 1 : end - 3;
      const size_t before = sequences_.size();
      for (int64_t b = first; b < last; ++b) {
        if (b > 0 && next_[static_cast<size_t>(b - 1)] < hi_ - 1)
          limit = std::min(limit, next_[static_cast<size_t>(b - 1)] - 3);
        chase(static_cast<size_t>(b), begin, end, limit);
      }
      if (sequences_.size() == before) return;
      for (int64_t j = end; j < end_; j += kLanes) reflect_rows(before, begin, end, j, std::min(kLanes, end_ - j));
      reflect_columns(before, begin - begin_, p_.h + begin_, p_.ld);
    }
  }

  // Reflections of this bulge up to row `limit`, of elements in rows and columns [begin, end) alone.
  void chase(size_t bulge, int64_t begin, int64_t end, int64_t limit) {
    const int64_t from = next_[bulge];
    if (limit <= from) return;
    T *const factors = factors_.get() + used_, *f = factors;
    int64_t k = from;
    for (; k < limit; ++k, f += kFactors) {
      const int64_t size = std::min<int64_t>(3, hi_ - k);
      const bool starts = k == first_;
      T x[3] = {};
      if (starts)
        start(k, shifts_[bulge], x);
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
      reflect_from_left(h_, k, size, f, k, end);
      reflect_from_right(h_, k, size, f, begin, std::min(k + 4, end));
    }
    next_[bulge] = k;
    const bool pair = k == hi_ - 1;
    sequences_.push_back({from - begin_, k - from - pair, pair, factors});
    conjugates_.push_back(sequences_.back());
    if constexpr (kIsComplex<T>) {
      T* const to = conjugated_.get() + used_;
      for (int64_t i = 0; i < f - factors; ++i) to[i] = std::conj(factors[i]);
      conjugates_.back().factors = to;
    }
    used_ += f - factors;
  }

  // The same reflections of the columns behind the window and of the rows before it, and of z.
  void update_outside() {
    const int64_t columns = (right_ - end_ + kLanes - 1) / kLanes, rows = (begin_ - top_ + kStrip - 1) / kStrip,
                  others = p_.z ? (p_.z_rows + kStrip - 1) / kStrip : 0;
    parallel_for(columns + rows + others, 1, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        if (i < columns) {
          const int64_t j = end_ + i * kLanes;
          reflect_rows(0, begin_, end_, j, std::min(kLanes, right_ - j));
        } else if (i < columns + rows) {
          const int64_t r = top_ + (i - columns) * kStrip;
          reflect_columns(0, std::min(kStrip, begin_ - r), p_.h + r, p_.ld);
        } else {
          const int64_t r = (i - columns - rows) * kStrip;
          reflect_columns(0, std::min(kStrip, p_.z_rows - r), p_.z + r, p_.z_ld);
        }
      }
    });
  }

  // The reflections from `sequence` on, of so many rows of a matrix from `rows` on.
  void reflect_columns(size_t sequence, int64_t count, T* rows, int64_t ld) const {
    kernels<T>().reflect(count, rows + begin_ * ld, ld, conjugates_.data() + sequence,
                         static_cast<int64_t>(conjugates_.size() - sequence));
  }
  // And of rows [begin, end) of columns j ..., as the columns of a block in which they lie side by side.
  void reflect_rows(size_t sequence, int64_t begin, int64_t end, int64_t j, int64_t count) const {
    const ScratchArray<T> block(window_ * kLanes);
    T *const inner = block.get() + (begin - begin_) * kLanes, *const columns = p_.h + j * p_.ld + begin;
    const int64_t rows = end - begin;
    flip(rows, count, columns, p_.ld, inner, kLanes);
    kernels<T>().reflect(count, block.get(), kLanes, sequences_.data() + sequence,
                         static_cast<int64_t>(sequences_.size() - sequence));
    flip(count, rows, inner, kLanes, columns, p_.ld);
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
  int64_t first_ = 0, begin_ = 0, end_ = 0;              // where bulges begin; the window
  std::vector<int64_t> next_;                            // of each bulge: the row of its next reflection
  std::vector<Reflections3<T>> sequences_, conjugates_;  // in the window; from its first column on
  const ScratchArray<T> factors_, conjugated_;
  int64_t used_ = 0;
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
