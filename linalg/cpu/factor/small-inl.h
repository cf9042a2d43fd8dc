// Small matrices by the group: a matrix in each lane of vectors, so that what one does all do at once; rows are
// exchanged under masks. Included once per SIMD target.
#if defined(TESSERA_LINALG_SMALL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_LINALG_SMALL_INL
#undef TESSERA_LINALG_SMALL_INL
#else
#define TESSERA_LINALG_SMALL_INL
#endif

#include "hwy/highway.h"
#include <limits>
#include <new>
#include <type_traits>

#include "linalg/cpu/factor/blocks.h"
#include "linalg/cpu/lane_matrix-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::factor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace numbers::HWY_NAMESPACE;

// Numbers of lanes, as integers to memory.
template <class T>
void store_numbers(typename Lanes<T>::V v, int64_t count, int32_t* to, int64_t step) {
  Real<T> numbers[Lanes<T>::kCount];
  hn::StoreU(v, typename Lanes<T>::D(), numbers);
  for (int64_t i = 0; i < count; ++i) to[i * step] = static_cast<int32_t>(numbers[i]);
}

// A divisor of many numbers: by its reciprocal, unless that is not as good in some lane.
template <class T>
class Divisor {
 public:
  using L = Lanes<T>;
  explicit HWY_INLINE Divisor(L by) : by_(by), inverse_(L::set(1).over(by)) {
    using Limits = std::numeric_limits<Real<T>>;
    const typename L::D d;
    const auto size = by.size();
    by_inverse_ = hn::AllTrue(
        d, hn::And(hn::Ge(size, hn::Set(d, 4 * Limits::min())), hn::Le(size, hn::Set(d, 1 / (4 * Limits::min())))));
  }
  HWY_INLINE L of(L x) const { return by_inverse_ ? x.times(inverse_) : x.over(by_); }

 private:
  L by_, inverse_;
  bool by_inverse_;
};

// Where lanes' `chosen`, one of [first, rows) or k, is the row, this row of a and row k change places.
template <class T>
HWY_INLINE void exchange_rows(const LaneMatrix<T>& a, int64_t k, int64_t first, int64_t rows,
                              typename Lanes<T>::V chosen) {
  using L = Lanes<T>;
  const typename L::D d;
  for (int64_t i = first; i < rows; ++i) {
    if (i == k) continue;
    const auto here = hn::Eq(chosen, hn::Set(d, static_cast<Real<T>>(i)));
    if (hn::AllFalse(d, here)) continue;
    Real<T>* const x = a.at(k, 0);
    Real<T>* const y = a.at(i, 0);
    for (int64_t j = 0; j < a.cols * LaneMatrix<T>::kStep; j += L::kCount) {
      const auto p = hn::LoadU(d, x + j), q = hn::LoadU(d, y + j);
      hn::StoreU(hn::IfThenElse(here, q, p), d, x + j);
      hn::StoreU(hn::IfThenElse(here, p, q), d, y + j);
    }
  }
}

// Tiles of rows x columns in registers.
template <class T>
constexpr int tile_rows() {
  return HWY_TARGET <= HWY_AVX3 && !kIsComplex<T> ? 4 : 2;
}
template <class T>
constexpr int tile_cols() {
  return HWY_TARGET <= HWY_AVX3 || !kIsComplex<T> ? 4 : 2;
}

// to(i, j) - sum over p in [first, last) of a(i, p) b(p, j) (kAdjoint: conj(b(j, p))), of a tile that begins there.
template <class T, int kRows, int kCols, bool kAdjoint = false>
struct Tile {
  using L = Lanes<T>;
  L acc[kRows][kCols];

  HWY_INLINE Tile(const LaneMatrix<T>& to, int64_t i, int64_t j) {
    TESSERA_UNROLL for (int r = 0; r < kRows; ++r) TESSERA_UNROLL for (int c = 0; c < kCols; ++c) acc[r][c] =
        to.get(i + r, j + c);
  }
  HWY_INLINE void subtract(const LaneMatrix<T>& a, const LaneMatrix<T>& b, int64_t i, int64_t j, int64_t first,
                           int64_t last) {
    for (int64_t p = first; p < last; ++p) {
      L x[kCols];
      TESSERA_UNROLL for (int c = 0; c < kCols; ++c) x[c] = kAdjoint ? b.get(j + c, p).conj() : b.get(p, j + c);
      TESSERA_UNROLL for (int r = 0; r < kRows; ++r) {
        const L f = a.get(i + r, p);
        TESSERA_UNROLL for (int c = 0; c < kCols; ++c) acc[r][c] = acc[r][c].minus_product(f, x[c]);
      }
    }
  }
  HWY_INLINE void store(const LaneMatrix<T>& to, int64_t i, int64_t j) const {
    TESSERA_UNROLL for (int r = 0; r < kRows; ++r) TESSERA_UNROLL for (int c = 0; c < kCols; ++c)
        to.put(i + r, j + c, acc[r][c]);
  }
};

// Of columns [j, j + kCols) of `to`, rows [first, last): minus a b over [0, depth).
template <class T, int kCols, bool kAdjoint>
void subtract_rows(const LaneMatrix<T>& to, const LaneMatrix<T>& a, const LaneMatrix<T>& b, int64_t j, int64_t first,
                   int64_t last, int64_t depth) {
  for_tiles<tile_rows<T>()>(first, last, [&](int64_t i, auto rows) HWY_ATTR {
    Tile<T, rows(), kCols, kAdjoint> tile(to, i, j);
    tile.subtract(a, b, i, j, 0, depth);
    tile.store(to, i, j);
  });
}

// Columns [j, j + kCols) of x: L^-1 x, or U^-1 x, of n rows, of a triangle of w. diagonal: null for one of ones.
template <class T, bool kUpper, int kCols>
void solve_columns(const LaneMatrix<T>& w, int64_t n, const LaneMatrix<T>& x, int64_t j, const Divisor<T>* diagonal) {
  constexpr int kRows = tile_rows<T>();
  const auto tile_at = [&](int64_t i, auto rows) HWY_ATTR {
    constexpr int kSize = rows();
    Tile<T, kSize, kCols> tile(x, i, j);
    if constexpr (kUpper)
      tile.subtract(w, x, i, j, i + kSize, n);
    else
      tile.subtract(w, x, i, j, 0, i);
    TESSERA_UNROLL for (int step = 0; step < kSize; ++step) {
      const int r = kUpper ? kSize - 1 - step : step;
      if (diagonal) TESSERA_UNROLL for (int c = 0; c < kCols; ++c) tile.acc[r][c] = diagonal[i + r].of(tile.acc[r][c]);
      TESSERA_UNROLL for (int later = step + 1; later < kSize; ++later) {
        const int q = kUpper ? kSize - 1 - later : later;
        const Lanes<T> f = w.get(i + q, i + r);
        TESSERA_UNROLL for (int c = 0; c < kCols; ++c) tile.acc[q][c] = tile.acc[q][c].minus_product(f, tile.acc[r][c]);
      }
    }
    tile.store(x, i, j);
  };
  if constexpr (kUpper) {
    int64_t i = n;
    for (; i >= kRows; i -= kRows) tile_at(i - kRows, std::integral_constant<int, kRows>());
    for (; i >= 1; --i) tile_at(i - 1, std::integral_constant<int, 1>());
  } else {
    for_tiles<kRows>(0, n, tile_at);
  }
}
template <class T, bool kUpper>
void solve_lanes(const LaneMatrix<T>& w, int64_t n, const LaneMatrix<T>& x, const Divisor<T>* diagonal) {
  for_tiles<tile_cols<T>()>(
      0, x.cols, [&](int64_t j, auto cols) HWY_ATTR { solve_columns<T, kUpper, cols()>(w, n, x, j, diagonal); });
}

// The diagonal of a triangle, in scratch memory.
template <class T>
class Diagonal {
 public:
  Diagonal(const LaneMatrix<T>& w, int64_t n) : memory_((n + 1) * sizeof(Divisor<T>)) {
    for (int64_t i = 0; i < n; ++i) new (get() + i) Divisor<T>(w.get(i, i));
  }
  Divisor<T>* get() const { return memory_.template as<Divisor<T>>(); }

 private:
  Scratch memory_;
};

// One column block of LU: rows from its diagonal on have all that is left of it. Calls each(k, chosen) with every
// pivot's row in lanes.
template <class T, class F>
void factor_columns_of_lanes(const LaneMatrix<T>& a, int64_t m, int64_t first, int64_t last, typename Lanes<T>::V& info,
                             const F& each) {
  using L = Lanes<T>;
  using R = Real<T>;
  const typename L::D d;
  for (int64_t k = first; k < last; ++k) {
    auto most = hn::Set(d, R{-1}), chosen = hn::Set(d, static_cast<R>(k));
    for (int64_t i = k; i < m; ++i) {
      const auto size = a.get(i, k).size();
      const auto larger = hn::Gt(size, most);
      most = hn::IfThenElse(larger, size, most);
      chosen = hn::IfThenElse(larger, hn::Set(d, static_cast<R>(i)), chosen);
    }
    each(k, chosen);
    exchange_rows(a, k, k + 1, m, chosen);
    const auto zero = hn::Eq(most, hn::Zero(d));
    const auto is_first = hn::And(zero, hn::Eq(info, hn::Zero(d)));
    info = hn::IfThenElse(is_first, hn::Set(d, static_cast<R>(k + 1)), info);
    const Divisor<T> pivot(L::choose(zero, L::set(1), a.get(k, k)));
    for (int64_t i = k + 1; i < m; ++i) {
      const L f = pivot.of(a.get(i, k));
      a.put(i, k, f);
      for (int64_t j = k + 1; j < last; ++j) a.put(i, j, a.get(i, j).minus_product(f, a.get(k, j)));
    }
  }
}

// The info of all lanes.
template <class T, class F>
typename Lanes<T>::V factor_lanes(const LaneMatrix<T>& a, int64_t m, const F& each) {
  const int64_t size = std::min(m, a.cols);
  auto info = hn::Zero(typename Lanes<T>::D());
  for_tiles<tile_cols<T>()>(0, a.cols, [&](int64_t j, auto cols) HWY_ATTR {
    const int64_t above = std::min(j, size);
    solve_columns<T, false, cols()>(a, above, a, j, nullptr);
    if (j >= size) return;
    subtract_rows<T, cols(), false>(a, a, a, j, j, m, j);
    factor_columns_of_lanes(a, m, j, std::min<int64_t>(j + cols(), size), info, each);
    // A block that is wider than what is left of the rows.
    for (int64_t more = size; more < j + cols(); ++more)
      for (int64_t i = j + 1; i < m; ++i)
        for (int64_t k = j; k < std::min(i, size); ++k)
          a.put(i, more, a.get(i, more).minus_product(a.get(i, k), a.get(k, more)));
  });
  return info;
}

template <class T>
void small_lu(int64_t count, int64_t m, int64_t n, Group<T> a, int32_t* pivots, int32_t* info) {
  const Scratch memory(LaneMatrix<T>::bytes(m, n));
  const LaneMatrix<T> w{memory.as<Real<T>>(), n};
  w.load(count, m, reading(a));
  const int64_t size = std::min(m, n);
  const typename Lanes<T>::D d;
  const auto found = factor_lanes(w, m, [&](int64_t k, typename Lanes<T>::V chosen) HWY_ATTR {
    store_numbers<T>(hn::Add(chosen, hn::Set(d, 1)), count, pivots + k, size);
  });
  store_numbers<T>(found, count, info, 1);
  w.store(count, m, a);
}

template <class T>
void small_inverse(int64_t count, int64_t n, Group<T> a, int32_t* info) {
  using L = Lanes<T>;
  const Scratch memory(2 * LaneMatrix<T>::bytes(n, n));
  const LaneMatrix<T> w{memory.as<Real<T>>(), n};
  const LaneMatrix<T> x{w.at(n, 0), n};
  w.load(count, n, reading(a));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) x.put(i, j, L::set(i == j ? 1 : 0));
  const auto found =
      factor_lanes(w, n, [&](int64_t k, typename L::V chosen) HWY_ATTR { exchange_rows(x, k, k + 1, n, chosen); });
  store_numbers<T>(found, count, info, 1);
  solve_lanes<T, false>(w, n, x, nullptr);
  solve_lanes<T, true>(w, n, x, Diagonal<T>(w, n).get());
  x.store(count, n, a);
}

template <class T>
void small_cholesky(int64_t count, int64_t n, Group<const T> a, Group<T> l, int32_t* info) {
  using L = Lanes<T>;
  using R = Real<T>;
  const typename L::D d;
  const Scratch memory(LaneMatrix<T>::bytes(n, n));
  const LaneMatrix<T> w{memory.as<R>(), n};
  w.load(count, n, a);
  auto found = hn::Zero(d);
  for_tiles<tile_cols<T>()>(0, n, [&](int64_t first, auto cols) HWY_ATTR {
    const int64_t last = first + cols();
    subtract_rows<T, cols(), true>(w, w, w, first, first, n, first);
    for (int64_t k = first; k < last; ++k) {
      const auto pivot = w.get(k, k).real_part();
      const auto bad = hn::Not(hn::Gt(pivot, hn::Zero(d)));
      const auto is_first = hn::And(bad, hn::Eq(found, hn::Zero(d)));
      found = hn::IfThenElse(is_first, hn::Set(d, static_cast<R>(k + 1)), found);
      const auto root = hn::Sqrt(hn::IfThenElse(bad, hn::Set(d, 1), pivot));
      w.put(k, k, L::real(root));
      const Divisor<R> divisor({root});
      for (int64_t i = k + 1; i < n; ++i) {
        const L f = w.get(i, k).each([&](typename L::V part) HWY_ATTR { return divisor.of({part}).v; });
        w.put(i, k, f);
        for (int64_t j = k + 1; j < std::min(last, i + 1); ++j)
          w.put(i, j, w.get(i, j).minus_product(f, w.get(j, k).conj()));
      }
      for (int64_t j = k + 1; j < n; ++j) w.put(k, j, L::set(0));
    }
  });
  store_numbers<T>(found, count, info, 1);
  w.store(count, n, l);
}

template <class T>
void conjugate(const LaneMatrix<T>& w, int64_t rows) {
  if constexpr (kIsComplex<T>)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < w.cols; ++j) w.put(i, j, w.get(i, j).conj());
}

template <class T>
void small_solve(int64_t count, int64_t n, int64_t width, Group<const T> a, TriangularForm form, Group<T> b) {
  const Scratch memory(LaneMatrix<T>::bytes(n, n + width));
  const LaneMatrix<T> w{memory.as<Real<T>>(), n};
  const LaneMatrix<T> x{w.at(n, 0), width};
  w.load(count, n, a);
  if (form.conj) conjugate(w, n);
  x.load(count, n, reading(b));
  const Diagonal<T> diagonal(w, form.unit ? 0 : n);
  const Divisor<T>* const divisors = form.unit ? nullptr : diagonal.get();
  if (form.upper)
    solve_lanes<T, true>(w, n, x, divisors);
  else
    solve_lanes<T, false>(w, n, x, divisors);
  x.store(count, n, b);
}

// Rows of x as row pivots[k] (from 1) of each matrix says.
template <class T>
void exchange_by(const LaneMatrix<T>& x, int64_t count, int64_t n, const int32_t* pivots, int64_t k) {
  Real<T> chosen[Lanes<T>::kCount];
  for (int64_t lane = 0; lane < Lanes<T>::kCount; ++lane)
    chosen[lane] = static_cast<Real<T>>(pivots[std::min(lane, count - 1) * n + k] - 1);
  exchange_rows(x, k, 0, n, hn::LoadU(typename Lanes<T>::D(), chosen));
}

template <class T>
void small_lu_solve(int64_t count, int64_t n, int64_t width, Group<const T> lu, const int32_t* pivots, SystemForm form,
                    Group<T> b) {
  const Scratch memory(LaneMatrix<T>::bytes(n, n + width));
  const LaneMatrix<T> w{memory.as<Real<T>>(), n};
  const LaneMatrix<T> x{w.at(n, 0), width};
  if (form.transposed) std::swap(lu.row, lu.col);
  w.load(count, n, lu);
  if (form.conj) conjugate(w, n);
  x.load(count, n, reading(b));
  const Diagonal<T> diagonal(w, n);
  if (form.transposed) {
    solve_lanes<T, false>(w, n, x, diagonal.get());
    solve_lanes<T, true>(w, n, x, nullptr);
    for (int64_t k = n - 1; k >= 0; --k) exchange_by(x, count, n, pivots, k);
  } else {
    for (int64_t k = 0; k < n; ++k) exchange_by(x, count, n, pivots, k);
    solve_lanes<T, false>(w, n, x, nullptr);
    solve_lanes<T, true>(w, n, x, diagonal.get());
  }
  x.store(count, n, b);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::factor
HWY_AFTER_NAMESPACE();

#endif
