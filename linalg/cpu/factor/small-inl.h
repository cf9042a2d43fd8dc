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
#include "linalg/cpu/factor/wide-inl.h"
#include "linalg/cpu/inverse_root-inl.h"
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
  // In the first `cols` columns.
  HWY_NOINLINE void of(LaneMatrix<T> a, int64_t cols) const {
    for_tiles<8>(0, cols * Lanes<T>::kParts, [&](int64_t first, auto count) HWY_ATTR { vectors<count()>(a, first); });
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
    const int64_t a_step = a.pitch(a.cols) * LaneMatrix<T>::kStep, b_step = b.pitch(b.cols) * LaneMatrix<T>::kStep;
    const Real<T>*f = a.at(i, first), *x = kAdjoint ? b.at(j, first) : b.at(first, j);
    for (int64_t p = first; p < last; ++p, f += LaneMatrix<T>::kStep, x += kAdjoint ? LaneMatrix<T>::kStep : b_step) {
      L side[kCols];
      TESSERA_UNROLL for (int c = 0; c < kCols; ++c) side[c] =
          kAdjoint ? L::load(x + c * b_step).conj() : L::load(x + c * LaneMatrix<T>::kStep);
      TESSERA_UNROLL for (int r = 0; r < kRows; ++r) {
        const L factor = L::load(f + r * a_step);
        TESSERA_UNROLL for (int c = 0; c < kCols; ++c) acc[r][c] = acc[r][c].minus_product(factor, side[c]);
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

template <class T>
constexpr int64_t kMostRows = 64 * Lanes<T>::kCount;

// Where rows of matrices in lanes come from, as exchanges bring them about.
template <class T>
struct Order {
  static constexpr int64_t kLanes = Lanes<T>::kCount;
  int32_t rows[kMostRows<T>];

  void begin(int64_t n) {
    for (int64_t i = 0; i < n * kLanes; ++i) rows[i] = static_cast<int32_t>(i / kLanes);
  }
  // As pivots say, counted from 1, n for each of `count` matrices.
  void take(int64_t n, int64_t count, const int32_t* pivots) {
    begin(n);
    for (int64_t lane = 0; lane < kLanes; ++lane)
      for (int64_t k = 0; k < n; ++k) exchange(k, pivots[std::min(lane, count - 1) * n + k] - 1, lane);
  }
  void exchange(int64_t k, int64_t with, int64_t lane) {
    std::swap(rows[k * kLanes + lane], rows[with * kLanes + lane]);
  }
};

// What goes with a factorization: the rows of its pivots, from 0, as rows[k * lanes + lane]; rows of `beside` (if there
// is one) change places as those of the matrix do; and what that makes of their order.
template <class T>
struct Pivots {
  int32_t rows[kMostRows<T>];
  Order<T> order;
  const LaneMatrix<T>* beside = nullptr;
  bool is_ordered = false;  // while pivots are found

  void take(int64_t k, typename Lanes<T>::V chosen) {
    store_numbers<T>(chosen, Lanes<T>::kCount, rows + k * Lanes<T>::kCount);
    if (is_ordered) exchange(k);
  }
  void exchange(int64_t k) {
    for (int64_t lane = 0; lane < Lanes<T>::kCount; ++lane) order.exchange(k, rows[k * Lanes<T>::kCount + lane], lane);
  }
  void store(int64_t count, int64_t size, int32_t* pivots) const {
    for (int64_t lane = 0; lane < count; ++lane)
      for (int64_t k = 0; k < size; ++k) pivots[lane * size + k] = rows[k * Lanes<T>::kCount + lane] + 1;
  }
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

// One column block of LU: rows from its diagonal on have all that is left of it. Rows change places in the first
// `there` columns.
template <class T>
void factor_columns_of_lanes(LaneMatrix<T> a, int64_t m, int64_t first, int64_t last, int64_t there,
                             typename Lanes<T>::V& info, Pivots<T>& pivots) {
  using L = Lanes<T>;
  using R = Real<T>;
  const typename L::D d;
  Largest<T> next(first);
  for (int64_t i = first; i < m; ++i) next.take(a.get(i, first), i);
  for (int64_t k = first; k < last; ++k) {
    const auto most = next.size, chosen = next.row;
    pivots.take(k, chosen);
    const Exchange<T> exchange(k, chosen);
    exchange.of(a, there);
    if (pivots.beside) exchange.of(*pivots.beside, pivots.beside->cols);
    const auto zero = hn::Eq(most, hn::Zero(d));
    const auto is_first = hn::And(zero, hn::Eq(info, hn::Zero(d)));
    info = hn::IfThenElse(is_first, hn::Set(d, static_cast<R>(k + 1)), info);
    const Divisor<T> pivot(L::choose(zero, L::set(1), a.get(k, k)));
    with_count(last - k - 1, [&](auto right) HWY_ATTR { next = eliminate<right()>(a, m, k, pivot); });
  }
}

// Of columns [first, last), whose rows are in the order that pivots say, as are those of the first `there` columns.
template <class T>
HWY_NOINLINE void factor_lanes(LaneMatrix<T> a, int64_t m, int64_t first, int64_t last, int64_t there,
                               typename Lanes<T>::V& info, Pivots<T>& pivots) {
  const int64_t size = std::min(m, a.cols);
  for_tiles<tile_cols<T>()>(first, last, [&](int64_t j, auto cols) HWY_ATTR {
    const int64_t above = std::min(j, size), end = j + cols();
    solve_columns<T, false, cols()>(a, above, a, j, end, nullptr);
    if (j >= size) return;
    subtract_rows<T, cols(), false>(a, a, a, j, j, m, j);
    factor_columns_of_lanes(a, m, j, std::min(end, size), there, info, pivots);
    // A block that is wider than what is left of the rows.
    for (int64_t more = size; more < end; ++more)
      for (int64_t i = j + 1; i < m; ++i)
        for (int64_t k = j; k < std::min(i, size); ++k)
          a.put(i, more, a.get(i, more).minus_product(a.get(i, k), a.get(k, more)));
  });
}

// LU of what is in memory. Columns of wide matrices come to lanes when it is their turn, with their rows where earlier
// pivots put them: exchanges are of those that are there alone.
template <class T>
bool comes_by_columns(LaneMatrix<T> w, int64_t count, const Group<const T>& from) {
  return w.has_tiles(count, from, 3);
}
template <class T>
HWY_NOINLINE void factor_group(LaneMatrix<T> w, int64_t count, int64_t m, Group<const T> from, Pivots<T>& pivots,
                               int32_t* info) {
  auto found = hn::Zero(typename Lanes<T>::D());
  pivots.is_ordered = comes_by_columns<T>(w, count, from);
  if (pivots.is_ordered) {
    pivots.order.begin(m);
    w.for_columns_of_tiles([&](int64_t first, int64_t end) HWY_ATTR {
      w.load_columns(m, from, end, pivots.order.rows);
      factor_lanes<T>(w, m, first, end, end, found, pivots);
    });
  } else {
    w.load(count, m, from);
    factor_lanes<T>(w, m, 0, w.cols, w.cols, found, pivots);
  }
  store_numbers<T>(found, count, info);
}

template <class T>
void small_lu(int64_t count, int64_t m, int64_t n, Group<const T> from, Group<T> a, int32_t* pivots, int32_t* info) {
  const Scratch memory(LaneMatrix<T>::bytes(m, n));
  const LaneMatrix<T> w{memory.as<Real<T>>(), n};
  Pivots<T> found;
  factor_group<T>(w, count, m, from, found, info);
  found.store(count, std::min(m, n), pivots);
  w.store(count, m, a);
}

template <class T>
void small_inverse(int64_t count, int64_t n, Group<const T> from, Group<T> a, int32_t* info) {
  using L = Lanes<T>;
  const Scratch memory(2 * LaneMatrix<T>::bytes(n, n));
  const LaneMatrix<T> w{memory.as<Real<T>>(), n};
  const LaneMatrix<T> x{w.at(n, 0), n};
  Pivots<T> pivots;
  factor_group<T>(w, count, n, from, pivots, info);
  if (!pivots.is_ordered) {
    pivots.order.begin(n);
    for (int64_t k = 0; k < n; ++k) pivots.exchange(k);
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) x.put(i, j, L::set(0));
    for (int64_t lane = 0; lane < L::kCount; ++lane) x.write(i, pivots.order.rows[i * L::kCount + lane], lane, T(1));
  }
  solve_lanes<T, false>(w, n, x, nullptr);
  solve_lanes<T, true>(w, n, x, Diagonal<T>(w, n).get());
  x.store(count, n, a);
}

// Cholesky's factorization by rows, so that they come and go while others are worked on.
template <class T>
struct CholeskyRows {
  using L = Lanes<T>;
  using V = typename L::V;
  static constexpr int kStep = 2 * tile_rows<T>();  // rows that go together
  const LaneMatrix<T> w;
  Real<T>* const inverses;  // reciprocals of the diagonal, none of which is too small or too large to multiply by
  V found = hn::Zero(typename L::D());

  // The diagonal's element k. Where it is none, `found` says so, and it stays what it is.
  HWY_INLINE L divide(L pivot, int64_t k) {
    const typename L::D d;
    const V x = pivot.real_part();
    const auto bad = hn::Not(hn::Gt(x, hn::Zero(d))), is_first = hn::And(bad, hn::Eq(found, hn::Zero(d)));
    found = hn::IfThenElse(is_first, hn::Set(d, static_cast<Real<T>>(k + 1)), found);
    const V square = hn::IfThenElse(bad, hn::Set(d, 1), x), inverse = InverseRoot(d, square);
    hn::StoreU(inverse, d, inverses + k * L::kCount);
    return L::real(hn::IfThenElse(bad, x, RootOf(d, square, inverse)));
  }
  // Rows i ... of columns j ..., of which kFrom are above them in the block on the diagonal.
  template <int kRows, int kCols, int kFrom>
  HWY_INLINE void tile_at(int64_t i, int64_t j) {
    Tile<T, kRows, kCols, true> tile(w, i, j);
    tile.subtract(w, w, i, j, 0, j);
    TESSERA_UNROLL for (int c = 0; c < kCols; ++c) {
      if (kFrom <= c && c < kFrom + kRows) tile.acc[c - kFrom][c] = divide(tile.acc[c - kFrom][c], j + c);
      const V inverse = hn::LoadU(typename L::D(), inverses + (j + c) * L::kCount);
      TESSERA_UNROLL for (int r = 0; r < kRows; ++r) {
        L& x = tile.acc[r][c];
        if (kFrom + r < c) x = L::set(0);
        if (kFrom + r > c) x = x.each([&](V part) HWY_ATTR { return hn::Mul(part, inverse); });
      }
      TESSERA_UNROLL for (int later = c + 1; later < kCols; ++later) {
        if (later >= kFrom + kRows) break;
        const L side = (later < kFrom ? w.get(j + later, j + c) : tile.acc[std::max(later - kFrom, 0)][c]).conj();
        TESSERA_UNROLL for (int r = 0; r < kRows; ++r) if (kFrom + r >= later) tile.acc[r][later] =
            tile.acc[r][later].minus_product(tile.acc[r][c], side);
      }
    }
    tile.store(w, i, j);
  }
  // kRows rows from i on in the columns of one block.
  template <int kRows, int kCols, int kFrom = 0>
  HWY_INLINE void diagonal_tile(int64_t i, int64_t j) {
    if constexpr (kFrom < kCols) {
      if (i - j == kFrom) return tile_at<kRows, kCols, kFrom>(i, j);
      diagonal_tile<kRows, kCols, kFrom + kRows>(i, j);
    }
  }
  HWY_NOINLINE void factor(int64_t first, int64_t end) {
    constexpr int kRows = tile_rows<T>(), kCols = tile_cols<T>();
    const int64_t whole = w.cols / kCols * kCols;  // blocks of so many columns
    for (int64_t j = 0; j < std::min(end, whole); j += kCols) {
      int64_t i = std::max(first, j);
      for (; i + kRows <= std::min(end, whole); i += kRows) {
        if (i >= j + kCols)
          tile_at<kRows, kCols, kCols>(i, j);
        else
          diagonal_tile<kRows, kCols>(i, j);
      }
      for (; i < end; ++i) tile_at<1, kCols, kCols>(i, j);
    }
    for (int64_t j = whole; j < end; ++j) {
      if (j >= first) tile_at<1, 1, 0>(j, j);
      for (int64_t i = std::max(first, j + 1); i < end; ++i) tile_at<1, 1, 1>(i, j);
    }
  }
};

template <class T>
void small_cholesky(int64_t count, int64_t n, Group<const T> a, Group<T> l, int32_t* info) {
  const Scratch memory(LaneMatrix<T>::bytes(n + 1, n));
  const LaneMatrix<T> w{memory.as<Real<T>>(), n};
  CholeskyRows<T> rows{w, w.at(n, 0)};
  const bool loads = w.has_tiles(count, a, 2);  // and l has the same strides
  if (!loads) w.load(count, n, a, Part::kLower);
  for (int64_t first = 0; first < n; first += rows.kStep) {
    const int64_t end = std::min(first + rows.kStep, n);
    for (int64_t i = first; i < end && loads; ++i) w.load_lower(a, i);
    if (loads && end < n) w.expect_row(a, end);
    rows.factor(first, end);
    for (int64_t i = first; i < end && loads; ++i) w.store_lower(l, i);
  }
  store_numbers<T>(rows.found, count, info);
  if (loads) return;
  for (int64_t i = 0; i < n; ++i) std::fill(w.at(i, i + 1), w.at(i, 0) + n * LaneMatrix<T>::kStep, Real<T>{0});
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

// Those of one column, as pivots say.
template <class T>
HWY_NOINLINE void exchange_numbers(LaneMatrix<T> x, int64_t n, int64_t count, const int32_t* pivots) {
  for (int64_t lane = 0; lane < count; ++lane)
    for (int64_t k = 0; k < n; ++k)
      for (int64_t part = lane; part < x.kStep; part += Lanes<T>::kCount)
        std::swap(x.at(k, 0)[part], x.at(pivots[lane * n + k] - 1, 0)[part]);
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
  Order<T> order;
  const bool in_lanes = width == 1 && !form.transposed;
  if (!in_lanes) order.take(n, count, pivots);
  x.load(count, n, from, Part::kAll, form.transposed || in_lanes ? nullptr : order.rows);
  if (in_lanes) exchange_numbers<T>(x, n, count, pivots);
  const Diagonal<T> diagonal(w, n);
  solve_lanes<T, false>(w, n, x, form.transposed ? diagonal.get() : nullptr);
  solve_lanes<T, true>(w, n, x, form.transposed ? nullptr : diagonal.get());
  x.store(count, n, b, form.transposed ? order.rows : nullptr);
}

// L D L^T of real numbers. Lanes take blocks of one or two where their pivots are: a step is the first or the second of
// a block of two in some of them, and nothing in those that the step before it did.
template <class T>
class LdlLanes {
 public:
  static constexpr int64_t kLanes = Lanes<T>::kCount;
  // memory: 4 x n numbers in lanes.
  LdlLanes(LaneMatrix<T> w, T* memory, int32_t* pivots, int32_t* info)
      : w_(w),
        n_(w.cols),
        u_(memory),
        v_(u_ + n_ * kLanes),
        x_(v_ + n_ * kLanes),
        y_(x_ + n_ * kLanes),
        pivots_(pivots),
        info_(info) {}

  HWY_NOINLINE void step(int64_t k) {
    Largest<T> below(k);
    below.size = hn::Zero(d);
    for (int64_t i = k + 1; i < n_; ++i) below.take(w_.get(i, k), i);
    T most[kLanes], rows[kLanes], ones[kLanes], twos[kLanes];
    hn::StoreU(below.size, d, most);
    hn::StoreU(below.row, d, rows);
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const int size = is_second_[lane] ? 0 : choose(lane, k, most[lane], static_cast<int64_t>(rows[lane]));
      is_second_[lane] = size == 2;
      ones[lane] = size == 1;
      twos[lane] = size == 2;
    }
    eliminate(k, hn::Ne(hn::LoadU(d, ones), hn::Zero(d)), hn::Ne(hn::LoadU(d, twos), hn::Zero(d)));
  }

 private:
  using V = typename Lanes<T>::V;
  using M = hn::Mask<typename Lanes<T>::D>;
  static constexpr typename Lanes<T>::D d{};

  T& at(int64_t lane, int64_t i, int64_t j) const { return w_.at(i, j)[lane]; }
  // As LdlFactor does it, and what changes places with it. How many rows the step takes in a lane; 0: a zero.
  int choose(int64_t lane, int64_t k, T in_column, int64_t r) {
    constexpr T kGrowth = static_cast<T>(kLdlGrowth);
    const T own = std::abs(at(lane, k, k));
    int size = 1;
    if (std::isnan(own) || (own == 0 && in_column == 0)) {
      if (!info_[lane]) info_[lane] = static_cast<int32_t>(k + 1);
      size = 0;
      r = k;
    } else if (own >= kGrowth * in_column) {
      r = k;
    } else {
      T beside = 0;
      for (int64_t j = k; j < r; ++j) beside = std::max(beside, std::abs(at(lane, r, j)));
      for (int64_t i = r + 1; i < n_; ++i) beside = std::max(beside, std::abs(at(lane, i, r)));
      if (own >= kGrowth * in_column * (in_column / beside))
        r = k;
      else if (!(std::abs(at(lane, r, r)) >= kGrowth * beside))
        size = 2;
    }
    const int64_t p = k + (size == 2);
    for (int64_t i = k; i <= p; ++i) pivots_[i * kLanes + lane] = static_cast<int32_t>(size == 2 ? -(r + 1) : r + 1);
    if (p != r) exchange(lane, p, r, size == 2 ? k : -1);
    return size;
  }
  // Rows and columns p and r > p, of column `before`, too, unless it is negative.
  void exchange(int64_t lane, int64_t p, int64_t r, int64_t before) {
    for (int64_t i = r + 1; i < n_; ++i) std::swap(at(lane, i, p), at(lane, i, r));
    for (int64_t i = p + 1; i < r; ++i) std::swap(at(lane, i, p), at(lane, r, i));
    std::swap(at(lane, p, p), at(lane, r, r));
    if (before >= 0) std::swap(at(lane, p, before), at(lane, r, before));
  }

  V get(const T* rows, int64_t i) const { return hn::LoadU(d, rows + i * kLanes); }
  void put(T* rows, int64_t i, V v) const { hn::StoreU(v, d, rows + i * kLanes); }
  // Columns k and k + 1 of L D, u and v, and of L, x and y, zeros where there are none; what they do to the rest.
  void eliminate(int64_t k, M ones, M twos) {
    const int64_t second = std::min(k + 1, n_ - 1);
    const V one = hn::Set(d, T{1}), own = w_.get(k, k).v;
    const Divisor<T> pivot({hn::IfThenElse(ones, own, one)}), b({hn::IfThenElse(twos, w_.get(second, k).v, one)});
    const V a_over = b.of({own}).v, c_over = b.of(w_.get(second, second)).v;
    const V scale = hn::Div(one, hn::MulSub(a_over, c_over, one));
    for (int64_t i = k + 1; i < n_; ++i) {
      const M in_two = i == second ? hn::FirstN(d, 0) : twos;
      const V u = w_.get(i, k).v, v = w_.get(i, second).v, u_over = b.of({u}).v, v_over = b.of({v}).v;
      const V x = hn::IfThenElse(in_two, hn::Mul(scale, hn::MulSub(c_over, u_over, v_over)), pivot.of({u}).v);
      put(u_, i, hn::IfThenElseZero(hn::Or(ones, twos), u));
      put(v_, i, hn::IfThenElseZero(in_two, v));
      put(x_, i, hn::IfThenElseZero(hn::Or(ones, in_two), x));
      put(y_, i, hn::IfThenElseZero(in_two, hn::Mul(scale, hn::MulSub(a_over, v_over, u_over))));
    }
    subtract(k + 1);
    for (int64_t i = k + 1; i < n_; ++i) {
      const M in_two = i == second ? hn::FirstN(d, 0) : twos;
      w_.put(i, k, {hn::IfThenElse(hn::Or(ones, in_two), get(x_, i), w_.get(i, k).v)});
      w_.put(i, second, {hn::IfThenElse(in_two, get(y_, i), w_.get(i, second).v)});
    }
  }
  // From row and column `first` on; two rows at once.
  HWY_INLINE void subtract(int64_t first) const {
    const int64_t pitch = w_.pitch(n_) * kLanes;
    const T *const x = x_ + first * kLanes, *const y = y_ + first * kLanes;
    const auto minus = [&](T* row, V u, V v, int64_t j) HWY_ATTR {
      const V now = hn::NegMulAdd(u, hn::LoadU(d, x + j), hn::LoadU(d, row + j));
      hn::StoreU(hn::NegMulAdd(v, hn::LoadU(d, y + j), now), d, row + j);
    };
    int64_t i = first;
    if ((n_ - i) % 2) minus(w_.at(i, i), get(u_, i), get(v_, i), 0), ++i;
    for (; i < n_; i += 2) {
      const V u = get(u_, i), v = get(v_, i), below_u = get(u_, i + 1), below_v = get(v_, i + 1);
      T* const row = w_.at(i, first);
      const int64_t end = (i + 1 - first) * kLanes;
      for (int64_t j = 0; j < end; j += kLanes) {
        minus(row, u, v, j);
        minus(row + pitch, below_u, below_v, j);
      }
      minus(row + pitch, below_u, below_v, end);
    }
  }

  LaneMatrix<T> w_;
  int64_t n_;
  T *u_, *v_, *x_, *y_;
  int32_t *pivots_, *info_;
  bool is_second_[kLanes] = {};
};

template <class T>
void small_ldl_factor(int64_t count, int64_t n, Group<const T> from, Group<T> a, int32_t* pivots, int32_t* info) {
  constexpr int64_t kLanes = Lanes<T>::kCount;
  const Scratch memory(LaneMatrix<T>::bytes(n, n) + 4 * n * kLanes * sizeof(T));
  const LaneMatrix<T> w{memory.as<T>(), n};
  int32_t rows[kMostRows<T>], found[kLanes] = {};
  w.load(count, n, from, Part::kLower);
  LdlLanes<T> lanes(w, w.at(n, 0), rows, found);
  for (int64_t k = 0; k < n; ++k) lanes.step(k);
  for (int64_t lane = 0; lane < count; ++lane) {
    for (int64_t k = 0; k < n; ++k) pivots[lane * n + k] = rows[k * kLanes + lane];
    info[lane] = found[lane];
  }
  for (int64_t i = 0; i < n; ++i) std::fill(w.at(i, i + 1), w.at(i, 0) + n * LaneMatrix<T>::kStep, T{0});
  w.store(count, n, a);
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
    Exchange<T>(k, rows.get(0, k).v).of(x, x.cols);
    if (k + 1 < n) Exchange<T>(k + 1, rows.get(1, k).v).of(x, x.cols);
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
void small_ldl_solve(int64_t count, int64_t n, int64_t width, Group<const T> ld, const int32_t* pivots,
                     Group<const T> from, Group<T> b) {
  using L = Lanes<T>;
  const Scratch memory(LaneMatrix<T>::bytes(n, n) + LaneMatrix<T>::bytes(n, width) + LdlSteps<T>::bytes(n));
  const LaneMatrix<T> w{memory.as<Real<T>>(), n};
  const LaneMatrix<T> x{w.at(n, 0), width};
  const LdlSteps<T> steps{{x.at(n, 0), n}};
  w.load(count, n, ld, Part::kLower);
  x.load(count, n, from);
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

template <class T>
void mix_rows(int64_t n, T* x, T* y, const T* f) {
  using W = Wide<T>;
  const typename W::D d;
  for (int64_t i = 0; i < n; i += W::kCount) {
    const int64_t some = std::min(W::kCount, n - i);
    const auto u = W::load_n(x + i, some);
    auto first = hn::Mul(u, hn::Set(d, f[0]));
    if (y) {
      const auto v = W::load_n(y + i, some);
      first = hn::MulAdd(v, hn::Set(d, f[1]), first);
      W::store_n(hn::MulAdd(u, hn::Set(d, f[2]), hn::Mul(v, hn::Set(d, f[3]))), y + i, some);
    }
    W::store_n(first, x + i, some);
  }
}

// Both of small_lu and small_lu_solve, without a look at memory between them.
template <class T>
void small_system(int64_t count, int64_t n, int64_t width, Group<const T> from, Group<T> a, int32_t* pivots,
                  int32_t* info, Group<const T> from_b, Group<T> b) {
  const Scratch memory(LaneMatrix<T>::bytes(n, n) + LaneMatrix<T>::bytes(n, width));
  const LaneMatrix<T> w{memory.as<Real<T>>(), n};
  const LaneMatrix<T> x{w.at(n, 0), width};
  Pivots<T> found;
  const bool by_columns = comes_by_columns<T>(w, count, from);
  if (!by_columns) {
    x.load(count, n, from_b);
    found.beside = &x;
  }
  factor_group<T>(w, count, n, from, found, info);
  found.store(count, n, pivots);
  w.store(count, n, a);
  if (by_columns) x.load(count, n, from_b, Part::kAll, found.order.rows);
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
