// Kernels for one block: the panel of an LU factorization, a triangle of equations, a block on Cholesky's diagonal.
// Included once per SIMD target.
#if defined(TESSERA_LINALG_BLOCK_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_LINALG_BLOCK_INL
#undef TESSERA_LINALG_BLOCK_INL
#else
#define TESSERA_LINALG_BLOCK_INL
#endif

#include "hwy/highway.h"
#include "linalg/cpu/factor/blocks.h"
#include "linalg/cpu/factor/wide-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::factor {
namespace HWY_NAMESPACE {

// How many vectors of columns a kernel keeps in registers beside each other.
template <class T>
constexpr int columns_in_registers() {
  return (HWY_TARGET <= HWY_AVX3 ? 4 : 2) / kParts<T>;
}

// ---- Triangles of equations ----

// kRows rows of x from row i on, kColumns vectors of them from column j on; part > 0: one vector of so many numbers.
template <class T, int kRows, int kColumns, bool kPart>
HWY_NOINLINE void solve_rows(const BlockSystem<T>& system, int64_t i, int64_t j, int64_t part) {
  using W = Wide<T>;
  using V = typename W::V;
  constexpr int64_t kStep = W::kCount;
  const auto load = [&](const T* p) HWY_ATTR {
    if constexpr (kPart)
      return W::load_n(p, part);
    else
      return W::load(p);
  };
  const int64_t distance = system.distance, row_stride = system.l.row_stride, col_stride = system.l.col_stride;
  const T *const inverse_diagonal = system.inverse_diagonal, *l = &system.l(i, 0), *done = system.x + j;
  T* const x = system.x + i * distance + j;
  typename W::Sums acc[kRows][kColumns];
  TESSERA_UNROLL for (int r = 0; r < kRows; ++r) {
    const T* const from = system.from + (system.order ? system.order[i + r] : i + r) * system.from_distance + j;
    TESSERA_UNROLL for (int c = 0; c < kColumns; ++c) acc[r][c] = W::sums(load(from + c * kStep));
  }
  for (int64_t p = 0; p < i; ++p, l += col_stride, done += distance) {
    V s[kColumns];
    TESSERA_UNROLL for (int c = 0; c < kColumns; ++c) s[c] = load(done + c * kStep);
    TESSERA_UNROLL for (int r = 0; r < kRows; ++r) {
      const auto f = W::factor(l[r * row_stride]);
      TESSERA_UNROLL for (int c = 0; c < kColumns; ++c) W::subtract(acc[r][c], s[c], f);
    }
  }
  TESSERA_UNROLL for (int r = 0; r < kRows; ++r, l += col_stride) {
    V s[kColumns];
    TESSERA_UNROLL for (int c = 0; c < kColumns; ++c) {
      s[c] = W::value(acc[r][c]);
      if (inverse_diagonal) s[c] = W::product(s[c], W::factor(inverse_diagonal[i + r]));
      if constexpr (kPart)
        W::store_n(s[c], x + r * distance + c * kStep, part);
      else
        W::store(s[c], x + r * distance + c * kStep);
    }
    TESSERA_UNROLL for (int q = r + 1; q < kRows; ++q) {
      const auto f = W::factor(l[q * row_stride]);
      TESSERA_UNROLL for (int c = 0; c < kColumns; ++c) W::subtract(acc[q][c], s[c], f);
    }
  }
}

// Four rows: of complex numbers two by two, where registers for the sums of all would be all there are.
template <class T, int kColumns, bool kPart>
HWY_INLINE void solve_four_rows(const BlockSystem<T>& system, int64_t i, int64_t j, int64_t part) {
  constexpr int kRows = kColumns * kParts<T> == 4 && HWY_TARGET > HWY_AVX3 ? 2 : 4;
  for (int64_t r = 0; r < 4; r += kRows) solve_rows<T, kRows, kColumns, kPart>(system, i + r, j, part);
}

template <class T, int kColumns, bool kPart>
void solve_strip(const BlockSystem<T>& system, int64_t j, int64_t part) {
  constexpr int64_t kStep = Wide<T>::kCount;
  int64_t i = 0;
  for (; i + 4 <= system.n; i += 4) solve_four_rows<T, kColumns, kPart>(system, i, j, part);
  for (; i < system.n; ++i)  // up to three, for which other forms would be more code than they are worth
    for (int64_t c = 0; c < kColumns; ++c) solve_rows<T, 1, 1, true>(system, i, j + c * kStep, kPart ? part : kStep);
}

template <class T>
void solve_block(const BlockSystem<T>& system) {
  constexpr int kColumns = std::max(2, columns_in_registers<T>());
  constexpr int64_t kStep = Wide<T>::kCount;
  int64_t j = 0;
  for (; j + kColumns * kStep <= system.width; j += kColumns * kStep) solve_strip<T, kColumns, false>(system, j, 0);
  if constexpr (kColumns > 2)
    for (; j + 2 * kStep <= system.width; j += 2 * kStep) solve_strip<T, 2, false>(system, j, 0);
  // The rest by one form, for whole vectors as well: code of a form of its own would be more than the time is worth.
  for (; j < system.width; j += kStep) solve_strip<T, 1, true>(system, j, std::min(kStep, system.width - j));
}

// ---- LU ----

// c -= a b, columns next to each other: c: m x n, a: m x k, b: k x n. kVectors x kColumns in registers.
template <class T, int kVectors, int kColumns, bool kPart>
HWY_INLINE void update_tile(int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc,
                            int64_t part) {
  using W = Wide<T>;
  constexpr int64_t kStep = W::kCount;
  const auto load = [&](const T* p) HWY_ATTR {
    if constexpr (kPart)
      return W::load_n(p, part);
    else
      return W::load(p);
  };
  typename W::Sums acc[kColumns][kVectors];
  TESSERA_UNROLL for (int j = 0; j < kColumns; ++j) TESSERA_UNROLL for (int v = 0; v < kVectors; ++v) acc[j][v] =
      W::sums(load(c + j * ldc + v * kStep));
  for (int64_t p = 0; p < k; ++p) {
    typename W::V s[kVectors];
    TESSERA_UNROLL for (int v = 0; v < kVectors; ++v) s[v] = load(a + p * lda + v * kStep);
    TESSERA_UNROLL for (int j = 0; j < kColumns; ++j) {
      const auto f = W::factor(b[p + j * ldb]);
      TESSERA_UNROLL for (int v = 0; v < kVectors; ++v) W::subtract(acc[j][v], s[v], f);
    }
  }
  TESSERA_UNROLL for (int j = 0; j < kColumns; ++j) {
    TESSERA_UNROLL for (int v = 0; v < kVectors; ++v) {
      if constexpr (kPart)
        W::store_n(W::value(acc[j][v]), c + j * ldc + v * kStep, part);
      else
        W::store(W::value(acc[j][v]), c + j * ldc + v * kStep);
    }
  }
}

template <class T, int kColumns>
void update_columns(int64_t m, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc) {
  constexpr int kVectors = columns_in_registers<T>();
  constexpr int64_t kStep = Wide<T>::kCount;
  int64_t i = 0;
  for (; i + kVectors * kStep <= m; i += kVectors * kStep)
    update_tile<T, kVectors, kColumns, false>(k, a + i, lda, b, ldb, c + i, ldc, 0);
  for (; i < m; i += kStep)
    update_tile<T, 1, kColumns, true>(k, a + i, lda, b, ldb, c + i, ldc, std::min(kStep, m - i));
}

template <class T>
void update(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc) {
  int64_t j = 0;
  for (; j + 4 <= n; j += 4) update_columns<T, 4>(m, k, a, lda, b + j * ldb, ldb, c + j * ldc, ldc);
  for (; j < n; ++j) update_columns<T, 1>(m, k, a, lda, b + j * ldb, ldb, c + j * ldc, ldc);
}

template <class T>
HWY_NOINLINE T total_of(typename Wide<T>::Sums s) {
  return Wide<T>::total(s);
}
// Sums of the blocks of 16 bytes that a vector is made of.
template <class D>
HWY_INLINE auto sum_of_blocks(D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(d) * sizeof(hn::TFromD<D>) > 16) {
    const hn::Half<D> half;
    return sum_of_blocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    return v;
  }
}
// to[i] = total of v[i], of real numbers: as many at once as 16 bytes have.
template <class T>
HWY_NOINLINE void totals_of(int64_t n, const typename Wide<T>::Sums* v, T* to) {
  using D = typename Wide<T>::D;
  using V = hn::Vec<D>;
  constexpr int64_t kAtOnce = 16 / sizeof(T);
  const D d;
  const auto pair = [](auto d, auto a, auto b)
                        HWY_ATTR { return std::pair(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)); };
  const auto sum = [&](V a, V b) HWY_ATTR {
    const auto [x, y] = pair(d, a, b);
    return hn::Add(x, y);
  };
  int64_t i = 0;
  for (; i + kAtOnce <= n; i += kAtOnce) {
    V s = sum(v[i], v[i + 1]);
    if constexpr (kAtOnce == 4) {
      const hn::Repartition<double, D> wide;
      const auto [x, y] = pair(wide, hn::BitCast(wide, s), hn::BitCast(wide, sum(v[i + 2], v[i + 3])));
      s = hn::Add(hn::BitCast(d, x), hn::BitCast(d, y));
    }
    const auto total = sum_of_blocks(d, s);
    hn::StoreU(total, hn::DFromV<decltype(total)>(), to + i);
  }
  for (; i < n; ++i) to[i] = total_of<T>(v[i]);
}
// Of rows: c(i, j) -= sum over p of a(i, p) b(p, j), where a lies in rows and b and c in columns; kColumns of them.
template <class T, int kRows, int kColumns>
HWY_INLINE void subtract_dots_tile(int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc) {
  using W = Wide<T>;
  typename W::Sums acc[kRows][kColumns];
  TESSERA_UNROLL for (int r = 0; r < kRows; ++r) TESSERA_UNROLL for (int j = 0; j < kColumns; ++j) acc[r][j] =
      W::sums(hn::Zero(typename W::D()));
  const auto step = [&](int64_t p, auto load) HWY_ATTR {
    typename W::Factor f[kColumns];
    TESSERA_UNROLL for (int j = 0; j < kColumns; ++j) f[j] = W::factors(load(b + j * ldb + p));
    TESSERA_UNROLL for (int r = 0; r < kRows; ++r) {
      const auto s = load(a + r * lda + p);
      TESSERA_UNROLL for (int j = 0; j < kColumns; ++j) W::subtract(acc[r][j], s, f[j]);
    }
  };
  int64_t p = 0;
  for (; p + W::kCount <= k; p += W::kCount) step(p, [](const T* x) HWY_ATTR { return W::load(x); });
  if (p < k) step(p, [&](const T* x) HWY_ATTR { return W::load_n(x, k - p); });
  if constexpr (kIsComplex<T>) {
    for (int r = 0; r < kRows; ++r)
      for (int j = 0; j < kColumns; ++j) c[r + j * ldc] += total_of<T>(acc[r][j]);
  } else {
    typename W::Sums sums[kColumns][kRows];
    T totals[kColumns][kRows];
    TESSERA_UNROLL for (int j = 0; j < kColumns; ++j) TESSERA_UNROLL for (int r = 0; r < kRows; ++r) sums[j][r] =
        acc[r][j];
    totals_of<T>(kColumns * kRows, sums[0], totals[0]);
    for (int j = 0; j < kColumns; ++j)
      for (int r = 0; r < kRows; ++r) c[r + j * ldc] += totals[j][r];
  }
}

template <class T, int kColumns>
void subtract_dots_columns(int64_t m, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc) {
  constexpr int kRows = kColumns == 1 && HWY_TARGET <= HWY_AVX3 ? 8 : 4;
  int64_t i = 0;
  for (; i + kRows <= m; i += kRows) subtract_dots_tile<T, kRows, kColumns>(k, a + i * lda, lda, b, ldb, c + i, ldc);
  for (; i < m; ++i) subtract_dots_tile<T, 1, kColumns>(k, a + i * lda, lda, b, ldb, c + i, ldc);
}

template <class T>
void subtract_dots(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c,
                   int64_t ldc) {
  constexpr int kColumns = columns_in_registers<T>();
  int64_t j = 0;
  for (; j + kColumns <= n; j += kColumns)
    subtract_dots_columns<T, kColumns>(m, k, a, lda, b + j * ldb, ldb, c + j * ldc, ldc);
  for (; j < n; ++j) subtract_dots_columns<T, 1>(m, k, a, lda, b + j * ldb, ldb, c + j * ldc, ldc);
}

// Where the largest of n numbers is, the first of equal ones; nan counts as the smallest.
template <class T>
int64_t find_pivot(int64_t n, const T* x) {
  using W = Wide<T>;
  using R = Real<T>;
  constexpr int kChains = 4;  // of comparisons that wait for one another
  const typename W::D d;
  const auto larger = [](auto v, auto most) HWY_ATTR { return hn::IfThenElse(hn::Gt(v, most), v, most); };
  hn::VFromD<typename W::D> most[kChains];
  TESSERA_UNROLL for (int c = 0; c < kChains; ++c) most[c] = hn::Set(d, R{-1});
  int64_t i = 0;
  for (; i + kChains * W::kCount <= n; i += kChains * W::kCount)
    TESSERA_UNROLL for (int c = 0; c < kChains; ++c) most[c] =
        larger(W::sizes(W::load(x + i + c * W::kCount)), most[c]);
  for (; i + W::kCount <= n; i += W::kCount) most[0] = larger(W::sizes(W::load(x + i)), most[0]);
  TESSERA_UNROLL for (int c = 1; c < kChains; ++c) most[0] = larger(most[c], most[0]);
  R largest = hn::GetLane(hn::MaxOfLanes(d, most[0]));
  for (; i < n; ++i)
    if (size_of(x[i]) > largest) largest = size_of(x[i]);
  const auto wanted = hn::Set(d, largest);
  for (i = 0; i + W::kCount <= n; i += W::kCount)
    if (!hn::AllFalse(d, hn::Eq(W::sizes(W::load(x + i)), wanted))) break;
  for (; i < n; ++i)
    if (size_of(x[i]) == largest) return i;
  return 0;
}

// Rows of `columns` columns change places, as `count` pivots say.
template <class T>
void swap_rows(T* a, int64_t ld, int64_t columns, int64_t count, const int32_t* pivots) {
  for (int64_t j = 0; j < columns; ++j, a += ld)
    for (int64_t i = 0; i < count; ++i) std::swap(a[i], a[pivots[i]]);
}

// x = x / divisor, by its reciprocal where that is as good.
template <class T>
void divide(int64_t n, T* x, T divisor) {
  using W = Wide<T>;
  const T inverse = reciprocal(divisor);
  if (!std::isnormal(size_of(inverse))) {
    for (int64_t i = 0; i < n; ++i) x[i] /= divisor;
    return;
  }
  const auto f = W::factor(inverse);
  int64_t i = 0;
  for (; i + W::kCount <= n; i += W::kCount) W::store(W::product(W::load(x + i), f), x + i);
  if (i < n) W::store_n(W::product(W::load_n(x + i, n - i), f), x + i, n - i);
}

// A few columns, each as those before it, its pivot, and what is below that. row: of a in the whole panel.
template <class T>
void factor_columns(int64_t m, int64_t n, T* a, int64_t ld, int32_t* pivots, int64_t row, int32_t* info) {
  for (int64_t j = 0; j < n; ++j) {
    T* const column = a + j * ld;
    for (int64_t p = 0; p + 1 < j; ++p)
      for (int64_t i = p + 1; i < j; ++i) column[i] -= times(a[i + p * ld], column[p]);
    update_columns<T, 1>(m - j, j, a + j, ld, column, ld, column + j, ld);
    const int64_t p = j + find_pivot(m - j, column + j);
    pivots[j] = static_cast<int32_t>(p);
    for (int64_t q = 0; q < n; ++q) std::swap(a[j + q * ld], a[p + q * ld]);
    if (column[j] != T{})
      divide(m - j - 1, column + j + 1, column[j]);
    else if (*info == 0)
      *info = static_cast<int32_t>(row + j + 1);
  }
}

// The left half, what it does to the right one, the right half.
template <class T>
void factor_panel(int64_t m, int64_t n, T* a, int64_t ld, int32_t* pivots, int64_t row, int32_t* info) {
  if (n <= 8) return factor_columns(m, n, a, ld, pivots, row, info);
  const int64_t left = n / 2, right = n - left;
  T* const b = a + left * ld;
  factor_panel(m, left, a, ld, pivots, row, info);
  swap_rows(b, ld, right, left, pivots);
  for (int64_t p = 0; p + 1 < left; ++p)
    update(left - p - 1, right, 1, a + p * ld + p + 1, ld, b + p, ld, b + p + 1, ld);
  update(m - left, right, left, a + left, ld, b, ld, b + left, ld);
  factor_panel(m - left, right, b + left, ld, pivots + left, row + left, info);
  swap_rows(a + left, ld, left, right, pivots + left);
  for (int64_t j = 0; j < right; ++j) pivots[left + j] += static_cast<int32_t>(left);
}

template <class T>
void lu_panel(int64_t m, int64_t n, T* a, int64_t ld, int32_t* pivots, int32_t* info) {
  int32_t own = 0;
  factor_panel(m, n, a, ld, pivots, 0, &own);
  if (own) *info = own;
}

// ---- Cholesky ----

// U of n rows, whose products with the rows above are subtracted already.
template <class T>
int64_t cholesky_corner(int64_t n, T* a, int64_t ld, T* inverse) {
  for (int64_t k = 0; k < n; ++k) {
    T* const row = a + k * ld;
    const Real<T> pivot = real_part(row[k]);
    if (!(pivot > 0)) return k + 1;
    const Real<T> root = std::sqrt(pivot);
    row[k] = T(root);
    inverse[k] = T(1 / root);
    for (int64_t j = k + 1; j < n; ++j) row[j] /= root;
    for (int64_t i = k + 1; i < n; ++i)
      for (int64_t j = i; j < n; ++j) a[i * ld + j] -= times(conj_if(row[i], true), row[j]);
  }
  return 0;
}

// Four rows: first where they meet the diagonal, then behind that as rows of a triangle of equations, for which what is
// done of U^H stands below the diagonal.
template <class T>
int64_t cholesky_rows(int64_t i, int64_t n, T* a, int64_t ld, T* inverse) {
  using W = Wide<T>;
  constexpr int kColumns = std::max(2, columns_in_registers<T>());
  constexpr int64_t kRows = 4, kStep = W::kCount, kVectors = (kRows + kStep - 1) / kStep;
  T* const corner = a + i * ld + i;
  typename W::Sums acc[kRows][kVectors];
  TESSERA_UNROLL for (int r = 0; r < kRows; ++r) TESSERA_UNROLL for (int v = 0; v < kVectors; ++v) acc[r][v] =
      W::sums(W::load_n(corner + r * ld + v * kStep, std::min(kStep, kRows - v * kStep)));
  for (int64_t p = 0; p < i; ++p) {
    typename W::V s[kVectors];
    TESSERA_UNROLL for (int v = 0; v < kVectors; ++v) s[v] = W::load(a + p * ld + i + v * kStep);
    TESSERA_UNROLL for (int r = 0; r < kRows; ++r) {
      const auto f = W::factor(a[(i + r) * ld + p]);
      TESSERA_UNROLL for (int v = 0; v < kVectors; ++v) W::subtract(acc[r][v], s[v], f);
    }
  }
  TESSERA_UNROLL for (int r = 0; r < kRows; ++r) TESSERA_UNROLL for (int v = 0; v < kVectors; ++v)
      W::store_n(W::value(acc[r][v]), corner + r * ld + v * kStep, std::min(kStep, kRows - v * kStep));
  const int64_t info = cholesky_corner(kRows, corner, ld, inverse + i);
  if (info) return i + info;
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t j = r + 1; j < kRows; ++j) corner[j * ld + r] = conj_if(corner[r * ld + j], true);
  const int64_t first = i + kRows;
  const BlockSystem<T> system{n, {a, ld, 1}, inverse, a, ld, nullptr, a, ld, n};
  int64_t j = first;
  for (; j + kColumns * kStep <= n; j += kColumns * kStep) solve_four_rows<T, kColumns, false>(system, i, j, 0);
  for (; j < n; j += kStep) solve_four_rows<T, 1, true>(system, i, j, std::min(kStep, n - j));
  for (j = first; j < n; ++j)
    for (int64_t r = 0; r < kRows; ++r) a[j * ld + i + r] = conj_if(a[(i + r) * ld + j], true);
  return 0;
}

template <class T>
int64_t cholesky_block(int64_t n, T* a, int64_t ld) {
  T inverse[kBlock];
  int64_t info = 0;
  for (int64_t i = 0; i < n && !info; i += 4) info = cholesky_rows(i, n, a, ld, inverse);
  return info;
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::factor
HWY_AFTER_NAMESPACE();

#endif
