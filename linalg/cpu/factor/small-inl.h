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
void store_numbers(typename Lanes<T>::V v, int64_t count, int32_t* to) {
  Real<T> numbers[Lanes<T>::kCount];
  hn::StoreU(v, typename Lanes<T>::D(), numbers);
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<int32_t>(numbers[i]);
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

// Row k of a matrix and the row that lanes' `chosen` (below 64) say change places.
template <class T>
class Exchange {
 public:
  using V = typename Lanes<T>::V;
  using D = typename Lanes<T>::D;
  Exchange(int64_t k, V chosen) : k_(k) {
    Real<T> rows[Lanes<T>::kCount];
    hn::StoreU(chosen, D(), rows);
    uint64_t wanted = 0;
    for (const Real<T> row : rows) wanted |= uint64_t{1} << static_cast<int>(row);
    for (wanted &= ~(uint64_t{1} << k); wanted; wanted &= wanted - 1, ++count_) {
      rows_[count_] = __builtin_ctzll(wanted);
      here_[count_] = hn::Eq(chosen, hn::Set(D(), static_cast<Real<T>>(rows_[count_])));
    }
  }
  HWY_NOINLINE void of(LaneMatrix<T> a) const {
    for_tiles<8>(0, a.cols * Lanes<T>::kParts, [&](int64_t first, auto count) HWY_ATTR { vectors<count()>(a, first); });
  }

 private:
  // Of so many vectors from that one of a row on. What row k gets stays in registers.
  template <int kVectors>
  HWY_INLINE void vectors(LaneMatrix<T> a, int64_t first) const {
    constexpr int64_t kLanes = Lanes<T>::kCount;
    Real<T>* const top = a.at(k_, 0) + first * kLanes;
    V x[kVectors];
    TESSERA_UNROLL for (int v = 0; v < kVectors; ++v) x[v] = hn::LoadU(D(), top + v * kLanes);
    for (int i = 0; i < count_; ++i) {
      Real<T>* const row = a.at(rows_[i], 0) + first * kLanes;
      TESSERA_UNROLL for (int v = 0; v < kVectors; ++v) {
        const V y = hn::LoadU(D(), row + v * kLanes);
        hn::StoreU(hn::IfThenElse(here_[i], x[v], y), D(), row + v * kLanes);
        x[v] = hn::IfThenElse(here_[i], y, x[v]);
      }
    }
    TESSERA_UNROLL for (int v = 0; v < kVectors; ++v) hn::StoreU(x[v], D(), top + v * kLanes);
  }

  int64_t k_;
  int count_ = 0;
  int rows_[Lanes<T>::kCount];
  hn::Mask<D> here_[Lanes<T>::kCount];
};

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

  HWY_INLINE Tile(LaneMatrix<T> to, int64_t i, int64_t j) {
    TESSERA_UNROLL for (int r = 0; r < kRows; ++r) TESSERA_UNROLL for (int c = 0; c < kCols; ++c) acc[r][c] =
        to.get(i + r, j + c);
  }
  HWY_INLINE void subtract(LaneMatrix<T> a, LaneMatrix<T> b, int64_t i, int64_t j, int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) {
      L x[kCols];
      TESSERA_UNROLL for (int c = 0; c < kCols; ++c) x[c] = kAdjoint ? b.get(j + c, p).conj() : b.get(p, j + c);
      TESSERA_UNROLL for (int r = 0; r < kRows; ++r) {
        const L f = a.get(i + r, p);
        TESSERA_UNROLL for (int c = 0; c < kCols; ++c) acc[r][c] = acc[r][c].minus_product(f, x[c]);
      }
    }
  }
  HWY_INLINE void store(LaneMatrix<T> to, int64_t i, int64_t j) const {
    TESSERA_UNROLL for (int r = 0; r < kRows; ++r) TESSERA_UNROLL for (int c = 0; c < kCols; ++c)
        to.put(i + r, j + c, acc[r][c]);
  }
};

// Of columns [j, j + kCols) of `to`, rows [first, last): minus a b over [0, depth).
template <class T, int kCols, bool kAdjoint>
void subtract_rows(LaneMatrix<T> to, LaneMatrix<T> a, LaneMatrix<T> b, int64_t j, int64_t first, int64_t last,
                   int64_t depth) {
  for_tiles<tile_rows<T>()>(first, last, [&](int64_t i, auto rows) HWY_ATTR {
    Tile<T, rows(), kCols, kAdjoint> tile(to, i, j);
    tile.subtract(a, b, i, j, 0, depth);
    tile.store(to, i, j);
  });
}

// Columns [first, last) of x, kCols at a time: L^-1 x, or U^-1 x, of n rows, of a triangle of w. diagonal: null for one
// of ones.
template <class T, bool kUpper, int kCols>
void solve_columns(LaneMatrix<T> w, int64_t n, LaneMatrix<T> x, int64_t first, int64_t last,
                   const Divisor<T>* diagonal) {
  constexpr int kRows = tile_rows<T>();
  const auto tile_at = [&](int64_t i, auto rows) HWY_ATTR {
    constexpr int kSize = rows();
    for (int64_t j = first; j < last; j += kCols) {
      Tile<T, kSize, kCols> tile(x, i, j);
      if constexpr (kUpper)
        tile.subtract(w, x, i, j, i + kSize, n);
      else
        tile.subtract(w, x, i, j, 0, i);
      TESSERA_UNROLL for (int step = 0; step < kSize; ++step) {
        const int r = kUpper ? kSize - 1 - step : step;
        if (diagonal)
          TESSERA_UNROLL for (int c = 0; c < kCols; ++c) tile.acc[r][c] = diagonal[i + r].of(tile.acc[r][c]);
        TESSERA_UNROLL for (int later = step + 1; later < kSize; ++later) {
          const int q = kUpper ? kSize - 1 - later : later;
          const Lanes<T> f = w.get(i + q, i + r);
          TESSERA_UNROLL for (int c = 0; c < kCols; ++c) tile.acc[q][c] =
              tile.acc[q][c].minus_product(f, tile.acc[r][c]);
        }
      }
      tile.store(x, i, j);
    }
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
void solve_lanes(LaneMatrix<T> w, int64_t n, LaneMatrix<T> x, const Divisor<T>* diagonal) {
  constexpr int kCols = tile_cols<T>();
  // So many that they stay in the first cache while w passes by.
  const int64_t whole = x.cols / kCols * kCols;
  for (int64_t j = 0; j < whole; j += 2 * kCols)
    solve_columns<T, kUpper, kCols>(w, n, x, j, std::min(j + 2 * kCols, whole), diagonal);
  solve_columns<T, kUpper, 1>(w, n, x, whole, x.cols, diagonal);
}

// The diagonal of a triangle, in scratch memory.
template <class T>
class Diagonal {
 public:
  Diagonal(LaneMatrix<T> w, int64_t n) : memory_((n + 1) * sizeof(Divisor<T>)) {
    for (int64_t i = 0; i < n; ++i) new (get() + i) Divisor<T>(w.get(i, i));
  }
  Divisor<T>* get() const { return memory_.template as<Divisor<T>>(); }

 private:
  Scratch memory_;
};

// What goes with a factorization: the rows of its pivots, from 0, as pivots[k * lanes + lane]; rows of `beside` (if
// there is one) change places as those of the matrix do.
template <class T>
struct Company {
  int32_t* pivots;
  const LaneMatrix<T>* beside;
};

// The first of the largest elements among those that were taken, of rows one after the other.
template <class T>
struct Largest {
  using D = typename Lanes<T>::D;
  using R = Real<T>;
  typename Lanes<T>::V size = hn::Set(D(), R{-1}), row;

  explicit HWY_INLINE Largest(int64_t first) : row(hn::Set(D(), static_cast<R>(first))) {}
  HWY_INLINE void take(Lanes<T> x, int64_t i) {
    const auto of_x = x.size();
    const auto larger = hn::Gt(of_x, size);
    size = hn::IfThenElse(larger, of_x, size);
    row = hn::IfThenElse(larger, hn::Set(D(), static_cast<R>(i)), row);
  }
};

// Column k divided by its pivot, and what that does to so many columns on its right. What is the largest of the next.
template <int kRight, class T>
HWY_INLINE Largest<T> eliminate(LaneMatrix<T> a, int64_t m, int64_t k, const Divisor<T>& pivot) {
  using L = Lanes<T>;
  Largest<T> next(k + 1);
  L top[kRight + 1];
  TESSERA_UNROLL for (int c = 0; c < kRight; ++c) top[c] = a.get(k, k + 1 + c);
  for (int64_t i = k + 1; i < m; ++i) {
    const L f = pivot.of(a.get(i, k));
    a.put(i, k, f);
    TESSERA_UNROLL for (int c = 0; c < kRight; ++c) {
      const L x = a.get(i, k + 1 + c).minus_product(f, top[c]);
      a.put(i, k + 1 + c, x);
      if (c == 0) next.take(x, i);
    }
  }
  return next;
}

// One column block of LU: rows from its diagonal on have all that is left of it.
template <class T>
void factor_columns_of_lanes(LaneMatrix<T> a, int64_t m, int64_t first, int64_t last, typename Lanes<T>::V& info,
                             const Company<T>& company) {
  using L = Lanes<T>;
  using R = Real<T>;
  const typename L::D d;
  Largest<T> next(first);
  for (int64_t i = first; i < m; ++i) next.take(a.get(i, first), i);
  for (int64_t k = first; k < last; ++k) {
    const auto most = next.size, chosen = next.row;
    store_numbers<T>(chosen, L::kCount, company.pivots + k * L::kCount);
    const Exchange<T> exchange(k, chosen);
    exchange.of(a);
    if (company.beside) exchange.of(*company.beside);
    const auto zero = hn::Eq(most, hn::Zero(d));
    const auto is_first = hn::And(zero, hn::Eq(info, hn::Zero(d)));
    info = hn::IfThenElse(is_first, hn::Set(d, static_cast<R>(k + 1)), info);
    const Divisor<T> pivot(L::choose(zero, L::set(1), a.get(k, k)));
    with_count(last - k - 1, [&](auto right) HWY_ATTR { next = eliminate<right()>(a, m, k, pivot); });
  }
}

// The info of all lanes.
template <class T>
HWY_NOINLINE typename Lanes<T>::V factor_lanes(LaneMatrix<T> a, int64_t m, const Company<T>& company) {
  const int64_t size = std::min(m, a.cols);
  auto info = hn::Zero(typename Lanes<T>::D());
  for_tiles<tile_cols<T>()>(0, a.cols, [&](int64_t j, auto cols) HWY_ATTR {
    const int64_t above = std::min(j, size), end = j + cols();
    solve_columns<T, false, cols()>(a, above, a, j, end, nullptr);
    if (j >= size) return;
    subtract_rows<T, cols(), false>(a, a, a, j, j, m, j);
    factor_columns_of_lanes(a, m, j, std::min(end, size), info, company);
    // A block that is wider than what is left of the rows.
    for (int64_t more = size; more < end; ++more)
      for (int64_t i = j + 1; i < m; ++i)
        for (int64_t k = j; k < std::min(i, size); ++k)
          a.put(i, more, a.get(i, more).minus_product(a.get(i, k), a.get(k, more)));
  });
  return info;
}

template <class T>
constexpr int64_t kMostRows = 64 * Lanes<T>::kCount;

template <class T>
void store_pivots(int64_t count, int64_t size, const int32_t* rows, int32_t* pivots) {
  for (int64_t lane = 0; lane < count; ++lane)
    for (int64_t k = 0; k < size; ++k) pivots[lane * size + k] = rows[k * Lanes<T>::kCount + lane] + 1;
}

template <class T>
void small_lu(int64_t count, int64_t m, int64_t n, Group<const T> from, Group<T> a, int32_t* pivots, int32_t* info) {
  const Scratch memory(LaneMatrix<T>::bytes(m, n));
  const LaneMatrix<T> w{memory.as<Real<T>>(), n};
  w.load(count, m, from);
  const int64_t size = std::min(m, n);
  int32_t rows[kMostRows<T>];
  store_numbers<T>(factor_lanes<T>(w, m, {rows, nullptr}), count, info);
  store_pivots<T>(count, size, rows, pivots);
  w.store(count, m, a);
}

template <class T>
void small_inverse(int64_t count, int64_t n, Group<const T> from, Group<T> a, int32_t* info) {
  using L = Lanes<T>;
  const Scratch memory(2 * LaneMatrix<T>::bytes(n, n));
  const LaneMatrix<T> w{memory.as<Real<T>>(), n};
  const LaneMatrix<T> x{w.at(n, 0), n};
  w.load(count, n, from);
  int32_t pivots[kMostRows<T>], rows[kMostRows<T>];
  store_numbers<T>(factor_lanes<T>(w, n, {pivots, nullptr}), count, info);
  // Which row of each matrix has come to row i.
  for (int64_t i = 0; i < n * L::kCount; ++i) rows[i] = static_cast<int32_t>(i / L::kCount);
  for (int64_t i = 0; i < n * L::kCount; ++i) std::swap(rows[i], rows[pivots[i] * L::kCount + i % L::kCount]);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) x.put(i, j, L::set(0));
    for (int64_t lane = 0; lane < L::kCount; ++lane) x.write(i, rows[i * L::kCount + lane], lane, T(1));
  }
  solve_lanes<T, false>(w, n, x, nullptr);
  solve_lanes<T, true>(w, n, x, Diagonal<T>(w, n).get());
  x.store(count, n, a);
}

// Column k below the diagonal divided by its root, and what that does to so many columns on its right.
template <int kRight, class T>
HWY_INLINE void eliminate_lower(LaneMatrix<T> w, int64_t n, int64_t k, const Divisor<Real<T>>& divisor) {
  using L = Lanes<T>;
  L side[kRight + 1];
  const auto divided = [&](int64_t i) HWY_ATTR {
    const L f = w.get(i, k).each([&](typename L::V part) HWY_ATTR { return divisor.of({part}).v; });
    w.put(i, k, f);
    return f;
  };
  const auto subtract = [&](int64_t i, int c, L f)
                            HWY_ATTR { w.put(i, k + 1 + c, w.get(i, k + 1 + c).minus_product(f, side[c])); };
  TESSERA_UNROLL for (int r = 0; r < kRight; ++r) {
    const L f = divided(k + 1 + r);
    side[r] = f.conj();
    TESSERA_UNROLL for (int c = 0; c <= r; ++c) subtract(k + 1 + r, c, f);
  }
  for (int64_t i = k + 1 + kRight; i < n; ++i) {
    const L f = divided(i);
    TESSERA_UNROLL for (int c = 0; c < kRight; ++c) subtract(i, c, f);
  }
}

template <class T>
void small_cholesky(int64_t count, int64_t n, Group<const T> a, Group<T> l, int32_t* info) {
  using L = Lanes<T>;
  using R = Real<T>;
  const typename L::D d;
  const Scratch memory(LaneMatrix<T>::bytes(n, n));
  const LaneMatrix<T> w{memory.as<R>(), n};
  w.load(count, n, a, Part::kLower);
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
      with_count(last - k - 1, [&](auto right) HWY_ATTR { eliminate_lower<right()>(w, n, k, divisor); });
      for (int64_t j = k + 1; j < n; ++j) w.put(k, j, L::set(0));
    }
  });
  store_numbers<T>(found, count, info);
  w.store(count, n, l);
}

template <class T>
void conjugate(LaneMatrix<T> w, int64_t rows) {
  if constexpr (kIsComplex<T>)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < w.cols; ++j) w.put(i, j, w.get(i, j).conj());
}

template <class T>
void small_solve(int64_t count, int64_t n, int64_t width, Group<const T> a, TriangularForm form, Group<const T> from,
                 Group<T> b) {
  const Scratch memory(LaneMatrix<T>::bytes(n, n) + LaneMatrix<T>::bytes(n, width));
  const LaneMatrix<T> w{memory.as<Real<T>>(), n};
  const LaneMatrix<T> x{w.at(n, 0), width};
  w.load(count, n, a, form.upper ? Part::kUpper : Part::kLower);
  if (form.conj) conjugate(w, n);
  x.load(count, n, from);
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
void exchange_by(LaneMatrix<T> x, int64_t count, int64_t n, const int32_t* pivots, int64_t k) {
  Real<T> chosen[Lanes<T>::kCount];
  for (int64_t lane = 0; lane < Lanes<T>::kCount; ++lane)
    chosen[lane] = static_cast<Real<T>>(pivots[std::min(lane, count - 1) * n + k] - 1);
  Exchange<T>(k, hn::LoadU(typename Lanes<T>::D(), chosen)).of(x);
}

template <class T>
void small_lu_solve(int64_t count, int64_t n, int64_t width, Group<const T> lu, const int32_t* pivots, SystemForm form,
                    Group<const T> from, Group<T> b) {
  const Scratch memory(LaneMatrix<T>::bytes(n, n) + LaneMatrix<T>::bytes(n, width));
  const LaneMatrix<T> w{memory.as<Real<T>>(), n};
  const LaneMatrix<T> x{w.at(n, 0), width};
  if (form.transposed) std::swap(lu.row, lu.col);
  w.load(count, n, lu);
  if (form.conj) conjugate(w, n);
  x.load(count, n, from);
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

// The pivots of L D L^T in lanes, as numbers: of step k, the row that comes to k, and that which comes to k + 1 where a
// block of two begins; where none is wanted, their own numbers.
template <class T>
struct LdlSteps {
  using L = Lanes<T>;
  using V = typename L::V;
  using R = Real<T>;
  const LaneMatrix<R> rows;  // 3 x n: k's row, (k + 1)'s, 1 where a block of two begins

  static int64_t bytes(int64_t n) { return LaneMatrix<R>::bytes(3, n); }
  void load(int64_t count, int64_t n, const int32_t* pivots) const {
    for (int64_t lane = 0; lane < L::kCount; ++lane) {
      const int32_t* const p = pivots + std::min(lane, count - 1) * n;
      const auto row = [&](int64_t k) { return static_cast<R>((p[k] < 0 ? -static_cast<int64_t>(p[k]) : p[k]) - 1); };
      bool second = false;
      for (int64_t k = 0; k < n; ++k) {
        const bool begins = !second && p[k] < 0 && k + 1 < n;
        rows.write(0, k, lane, begins || second ? static_cast<R>(k) : row(k));
        rows.write(1, k, lane, begins ? row(k + 1) : static_cast<R>(k + 1));
        rows.write(2, k, lane, begins ? R(1) : R(0));
        second = begins;
      }
    }
  }
  auto begins(int64_t k) const { return hn::Ne(rows.get(2, k).v, hn::Zero(typename L::D())); }
  void exchange(LaneMatrix<T> x, int64_t n, int64_t k) const {
    Exchange<T>(k, rows.get(0, k).v).of(x);
    if (k + 1 < n) Exchange<T>(k + 1, rows.get(1, k).v).of(x);
  }
};

// x = D^-1 x in rows k and k + 1; `beside`: the element between a block's two.
template <class T>
void divide_ldl(LaneMatrix<T> w, LaneMatrix<T> x, const LdlSteps<T>& steps, int64_t n, int64_t k, Lanes<T> beside) {
  using L = Lanes<T>;
  const L one = L::set(1), own = w.get(k, k);
  const auto begins = steps.begins(k);
  const auto alone = k == 0 ? hn::Not(begins) : hn::Not(hn::Or(begins, steps.begins(k - 1)));
  const Divisor<T> single(L::choose(alone, own, one));
  if (k + 1 == n || hn::AllFalse(typename L::D(), begins)) {
    for (int64_t j = 0; j < x.cols; ++j) x.put(k, j, L::choose(alone, single.of(x.get(k, j)), x.get(k, j)));
    return;
  }
  const L b = L::choose(begins, beside, one), a_over = own.over(b), c_over = w.get(k + 1, k + 1).over(b);
  const L scale = one.over(L::set(0).minus_product(one, one.minus_product(a_over, c_over)));
  for (int64_t j = 0; j < x.cols; ++j) {
    const L u = x.get(k, j), v = x.get(k + 1, j), zero = L::set(0);
    const L first = zero.minus_product(one, v.minus_product(c_over, u)).times(scale).over(b);
    const L second = zero.minus_product(one, u.minus_product(a_over, v)).times(scale).over(b);
    x.put(k, j, L::choose(begins, first, L::choose(alone, single.of(u), u)));
    x.put(k + 1, j, L::choose(begins, second, v));
  }
}

template <class T>
void small_ldl_solve(int64_t count, int64_t n, int64_t width, Group<const T> ld, const int32_t* pivots, Group<T> b) {
  using L = Lanes<T>;
  const Scratch memory(LaneMatrix<T>::bytes(n, n) + LaneMatrix<T>::bytes(n, width) + LdlSteps<T>::bytes(n));
  const LaneMatrix<T> w{memory.as<Real<T>>(), n};
  const LaneMatrix<T> x{w.at(n, 0), width};
  const LdlSteps<T> steps{{x.at(n, 0), n}};
  w.load(count, n, ld, Part::kLower);
  x.load(count, n, reading(b));
  steps.load(count, n, pivots);
  const auto for_columns = [&](auto f) HWY_ATTR { for_tiles<tile_cols<T>()>(0, width, f); };
  for (int64_t k = 0; k < n; ++k) {
    steps.exchange(x, n, k);
    // Between the rows of a block there is D's element, and none of L; it waits above the diagonal.
    if (k + 1 < n) {
      const L beside = w.get(k + 1, k), zero = L::set(0);
      w.put(k, k + 1, beside);
      w.put(k + 1, k, L::choose(steps.begins(k), zero, beside));
    }
    for_columns([&](int64_t j, auto cols) HWY_ATTR {
      L top[cols()];
      TESSERA_UNROLL for (int c = 0; c < cols(); ++c) top[c] = x.get(k, j + c);
      for (int64_t i = k + 1; i < n; ++i) {
        const L f = w.get(i, k);
        TESSERA_UNROLL for (int c = 0; c < cols(); ++c) x.put(i, j + c, x.get(i, j + c).minus_product(f, top[c]));
      }
    });
  }
  for (int64_t k = 0; k < n; ++k) divide_ldl<T>(w, x, steps, n, k, w.get(k, std::min(k + 1, n - 1)));
  for (int64_t k = n - 1; k >= 0; --k) {
    for_columns([&](int64_t j, auto cols) HWY_ATTR {
      L sum[cols()];
      TESSERA_UNROLL for (int c = 0; c < cols(); ++c) sum[c] = x.get(k, j + c);
      for (int64_t i = k + 1; i < n; ++i) {
        const L f = w.get(i, k);
        TESSERA_UNROLL for (int c = 0; c < cols(); ++c) sum[c] = sum[c].minus_product(f, x.get(i, j + c));
      }
      TESSERA_UNROLL for (int c = 0; c < cols(); ++c) x.put(k, j + c, sum[c]);
    });
    steps.exchange(x, n, k);
  }
  x.store(count, n, b);
}

// Both of small_lu and small_lu_solve, without a look at memory between them.
template <class T>
void small_system(int64_t count, int64_t n, int64_t width, Group<const T> from, Group<T> a, int32_t* pivots,
                  int32_t* info, Group<const T> from_b, Group<T> b) {
  const Scratch memory(LaneMatrix<T>::bytes(n, n) + LaneMatrix<T>::bytes(n, width));
  const LaneMatrix<T> w{memory.as<Real<T>>(), n};
  const LaneMatrix<T> x{w.at(n, 0), width};
  w.load(count, n, from);
  x.load(count, n, from_b);
  int32_t rows[kMostRows<T>];
  store_numbers<T>(factor_lanes<T>(w, n, {rows, &x}), count, info);
  store_pivots<T>(count, n, rows, pivots);
  w.store(count, n, a);
  solve_lanes<T, false>(w, n, x, nullptr);
  solve_lanes<T, true>(w, n, x, Diagonal<T>(w, n).get());
  x.store(count, n, b);
}

// A tile of x = W^H W, n x n, and what mirrors it, from row i and column j <= i on.
template <class T>
HWY_INLINE void square_tile(LaneMatrix<T> w, int64_t n, LaneMatrix<T> x, int64_t i, int64_t j) {
  using L = Lanes<T>;
  constexpr int kRows = tile_rows<T>(), kCols = tile_cols<T>();
  L acc[kRows][kCols];  // of -x
  TESSERA_UNROLL for (int r = 0; r < kRows; ++r) TESSERA_UNROLL for (int c = 0; c < kCols; ++c) acc[r][c] = L::set(0);
  for (int64_t p = i; p < n; ++p) {
    L s[kCols];
    TESSERA_UNROLL for (int c = 0; c < kCols; ++c) s[c] = w.get(p, j + c);
    TESSERA_UNROLL for (int r = 0; r < kRows; ++r) {
      const L f = w.get(p, i + r).conj();
      TESSERA_UNROLL for (int c = 0; c < kCols; ++c) acc[r][c] = acc[r][c].minus_product(f, s[c]);
    }
  }
  const int64_t rows = std::min<int64_t>(kRows, n - i);
  L sums[kRows][kCols];
  TESSERA_UNROLL for (int r = 0; r < kRows; ++r) TESSERA_UNROLL for (int c = 0; c < kCols; ++c) sums[r][c] =
      acc[r][c].each([](typename L::V part) HWY_ATTR { return hn::Neg(part); });
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < kCols && j + c <= i + r; ++c) {
      x.put(j + c, i + r, sums[r][c].conj());
      x.put(i + r, j + c, i + r == j + c ? L::real(sums[r][c].real_part()) : sums[r][c]);
    }
}

// One form of tiles: columns of zeros make W as wide as they need it.
template <class T>
void small_product_inverse(int64_t count, int64_t n, Group<const T> from, Group<T> a) {
  using L = Lanes<T>;
  constexpr int kRows = tile_rows<T>(), kCols = tile_cols<T>();
  const int64_t width = (n + 3) / 4 * 4;
  static_assert(4 % kRows == 0 && 4 % kCols == 0);
  const Scratch memory(LaneMatrix<T>::bytes(n, n) + LaneMatrix<T>::bytes(n, width));
  const LaneMatrix<T> x{memory.as<Real<T>>(), n};
  const LaneMatrix<T> w{x.at(n, 0), width};
  x.load(count, n, from, Part::kLower);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < width; ++j) w.put(i, j, L::set(i == j ? 1 : 0));
  const Diagonal<T> diagonal(x, n);
  // Above the rows that columns begin with they are zero.
  for (int64_t j = 0; j < n; j += kCols)
    solve_columns<T, false, kCols>({x.at(j, j), n}, n - j, {w.at(j, j), width}, 0, kCols, diagonal.get() + j);
  for (int64_t i = 0; i < n; i += kRows)
    for (int64_t j = 0; j < i + kRows; j += kCols) square_tile(w, n, x, i, j);
  x.store(count, n, a);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::factor
HWY_AFTER_NAMESPACE();

#endif
