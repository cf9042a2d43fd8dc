// Reflections of small matrices by the group, a matrix in each lane. Included once per SIMD target.
#if defined(TESSERA_LINALG_SMALL_QR_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_LINALG_SMALL_QR_INL
#undef TESSERA_LINALG_SMALL_QR_INL
#else
#define TESSERA_LINALG_SMALL_QR_INL
#endif

#include "hwy/highway.h"
#include <algorithm>
#include <limits>

#include "linalg/cpu/lane_matrix-inl.h"
#include "linalg/cpu/orthogonal/small.h"
#include "tensor/cpu/support/scratch.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::orthogonal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace numbers;
using namespace numbers::HWY_NAMESPACE;

// Matrices in lanes whose columns are worked on: those that are wide enough to be transposed by tiles lie in columns,
// so that a column's numbers follow each other.
template <class T>
class Columns {
 public:
  using L = Lanes<T>;
  using R = Real<T>;

  // Beside each there may be `beside` columns of another one; then they lie in columns.
  Columns(int64_t rows, int64_t cols, int64_t beside = 0)
      : rows_(rows),
        cols_(cols),
        beside_(beside),
        in_columns_(beside > 0 || cols >= L::kCount),
        memory_(in_columns_ ? LaneMatrix<T>::bytes(cols + beside, rows) : LaneMatrix<T>::bytes(rows, cols)),
        lanes_{memory_.template as<R>(), in_columns_ ? rows : cols},
        row_(in_columns_ ? 1 : LaneMatrix<T>::pitch(cols)),
        col_(in_columns_ ? LaneMatrix<T>::pitch(rows) : 1) {}

  // Where they lie. Passed by value, so that it stays in registers while numbers are stored.
  struct Place {
    R* data;
    int64_t row, col;  // in numbers

    HWY_INLINE R* at(int64_t i, int64_t j) const { return data + (i * row + j * col) * LaneMatrix<T>::kStep; }
    HWY_INLINE L get(int64_t i, int64_t j) const { return L::load(at(i, j)); }
    HWY_INLINE void put(int64_t i, int64_t j, L x) const { x.store(at(i, j)); }
  };
  Place place() const { return {lanes_.data, row_, col_}; }
  void load(int64_t count, const Group<const T>& g) const {
    if (in_columns_)
      lanes_.load(count, cols_, {g.data, g.step, g.col, g.row});
    else
      lanes_.load(count, rows_, g);
  }
  void store(int64_t count, const Group<T>& g) const {
    if (in_columns_)
      lanes_.store(count, cols_, {g.data, g.step, g.col, g.row});
    else
      lanes_.store(count, rows_, g);
  }
  // Whether rows of an upper triangle go to g each by itself.
  bool has_rows(int64_t count, const Group<T>& g) const {
    return !kIsComplex<T> && in_columns_ && count == L::kCount && g.col == 1 && cols_ >= L::kCount;
  }
  // That of row i, with zeros before it; what is there in lanes stays.
  HWY_NOINLINE void store_upper(const Group<T>& g, int64_t i) const {
    const Place a = place();
    const int64_t begin = std::min(i / L::kCount * L::kCount, cols_ - L::kCount);
    L below[L::kCount];
    for (int64_t j = begin; j < i; ++j) {
      below[j - begin] = a.get(i, j);
      a.put(i, j, L::set(0));
    }
    T* const row = g.data + i * g.row;
    LaneMatrix<T>::template move_run<false>(row + begin, cols_ - begin, g.step, a.at(i, begin),
                                            a.col * LaneMatrix<T>::kStep);
    for (int64_t j = begin; j < i; ++j) a.put(i, j, below[j - begin]);
    LaneMatrix<T>::write_zeros(reinterpret_cast<R*>(row), begin, g.step);  // real numbers alone come here
  }
  void load_beside(int64_t count, const Group<const T>& g) const {
    LaneMatrix<T>{lanes_.at(cols_, 0), rows_}.load(count, beside_, {g.data, g.step, g.col, g.row});
  }
  void store_beside(int64_t count, const Group<T>& g) const {
    LaneMatrix<T>{lanes_.at(cols_, 0), rows_}.store(count, beside_, {g.data, g.step, g.col, g.row});
  }

 private:
  int64_t rows_, cols_, beside_;
  bool in_columns_;
  internal::Scratch memory_;
  LaneMatrix<T> lanes_;
  int64_t row_, col_;
};

// s + conj(a) b.
template <class T>
HWY_INLINE Lanes<T> plus_inner(Lanes<T> s, Lanes<T> a, Lanes<T> b) {
  if constexpr (kIsComplex<T>)
    return {hn::MulAdd(a.im, b.im, hn::MulAdd(a.re, b.re, s.re)),
            hn::NegMulAdd(a.im, b.re, hn::MulAdd(a.re, b.im, s.im))};
  else
    return {hn::MulAdd(a.v, b.v, s.v)};
}
template <class T>
HWY_INLINE typename Lanes<T>::V imag_part_of(Lanes<T> x) {
  if constexpr (kIsComplex<T>)
    return x.im;
  else
    return hn::Zero(typename Lanes<T>::D());
}
template <class T>
HWY_INLINE Lanes<T> from_parts(typename Lanes<T>::V re, typename Lanes<T>::V im) {
  if constexpr (kIsComplex<T>)
    return {re, im};
  else
    return {re};
}

// Columns [c, c + kCount) minus (1, v) factor (1, v)^H times them, v below the diagonal of column j.
template <int kCount, class Place, class T>
HWY_INLINE void reflect_columns(Place a, int64_t rows, int64_t j, Lanes<T> factor, int64_t c) {
  Lanes<T> sums[kCount];
  TESSERA_UNROLL for (int q = 0; q < kCount; ++q) sums[q] = a.get(j, c + q);
  for (int64_t i = j + 1; i < rows; ++i) {
    const Lanes<T> v = a.get(i, j);
    TESSERA_UNROLL for (int q = 0; q < kCount; ++q) sums[q] = plus_inner<T>(sums[q], v, a.get(i, c + q));
  }
  TESSERA_UNROLL for (int q = 0; q < kCount; ++q) {
    sums[q] = sums[q].times(factor);
    const auto one = Lanes<T>::set(1);
    a.put(j, c + q, a.get(j, c + q).minus_product(one, sums[q]));
  }
  for (int64_t i = j + 1; i < rows; ++i) {
    const Lanes<T> v = a.get(i, j);
    TESSERA_UNROLL for (int q = 0; q < kCount; ++q) a.put(i, c + q, a.get(i, c + q).minus_product(v, sums[q]));
  }
}

// s - conj(a) b.
template <class T>
HWY_INLINE Lanes<T> minus_inner(Lanes<T> s, Lanes<T> a, Lanes<T> b) {
  return s.minus_product(a.conj(), b);
}

// The inner product of the vectors of columns j + 1 and j.
template <class T, class Place>
HWY_INLINE Lanes<T> inner_of_pair(Place a, int64_t rows, int64_t j) {
  Lanes<T> sum = a.get(j + 1, j);
  for (int64_t i = j + 2; i < rows; ++i) sum = plus_inner<T>(sum, a.get(i, j + 1), a.get(i, j));
  return sum;
}

// The reflections of columns j and j + 1, one after the other or (kBack) in the opposite order, so that numbers are
// read and written once for both. inner: inner_of_pair.
template <int kCount, bool kBack, class Place, class T>
HWY_INLINE void reflect_by_pair(Place a, int64_t rows, int64_t j, Lanes<T> factor, Lanes<T> next_factor, Lanes<T> inner,
                                int64_t c) {
  using L = Lanes<T>;
  L sums[kCount], next_sums[kCount];
  const L one = L::set(1), corner = a.get(j + 1, j);
  TESSERA_UNROLL for (int q = 0; q < kCount; ++q) {
    next_sums[q] = a.get(j + 1, c + q);
    sums[q] = plus_inner<T>(a.get(j, c + q), corner, next_sums[q]);
  }
  for (int64_t i = j + 2; i < rows; ++i) {
    const L v = a.get(i, j), u = a.get(i, j + 1);
    TESSERA_UNROLL for (int q = 0; q < kCount; ++q) {
      const L x = a.get(i, c + q);
      sums[q] = plus_inner<T>(sums[q], v, x);
      next_sums[q] = plus_inner<T>(next_sums[q], u, x);
    }
  }
  TESSERA_UNROLL for (int q = 0; q < kCount; ++q) {
    if constexpr (kBack) {
      next_sums[q] = next_sums[q].times(next_factor);
      sums[q] = minus_inner<T>(sums[q], inner, next_sums[q]).times(factor);
    } else {
      sums[q] = sums[q].times(factor);
      next_sums[q] = next_sums[q].minus_product(inner, sums[q]).times(next_factor);
    }
    a.put(j, c + q, a.get(j, c + q).minus_product(one, sums[q]));
    const L below = a.get(j + 1, c + q).minus_product(corner, sums[q]);
    a.put(j + 1, c + q, below.minus_product(one, next_sums[q]));
  }
  for (int64_t i = j + 2; i < rows; ++i) {
    const L v = a.get(i, j), u = a.get(i, j + 1);
    TESSERA_UNROLL for (int q = 0; q < kCount; ++q) {
      const L x = a.get(i, c + q).minus_product(v, sums[q]);
      a.put(i, c + q, x.minus_product(u, next_sums[q]));
    }
  }
}

// Columns that the first cache holds while reflections of all others pass by.
template <class T>
constexpr int kTogether = kIsComplex<T> ? 2 : 4;

// Column j becomes (R's diagonal, v), as make_reflection's; the result is tau. Squares are those of numbers near 1.
template <class T>
HWY_INLINE Lanes<T> make_reflection(typename Columns<T>::Place a, int64_t rows, int64_t j) {
  using L = Lanes<T>;
  using R = Real<T>;
  using V = typename L::V;
  const typename L::D d;
  const V zero = hn::Zero(d), one = hn::Set(d, 1);
  const L alpha = a.get(j, j);
  V largest = alpha.size();
  for (int64_t i = j + 1; i < rows; ++i) largest = hn::Max(largest, a.get(i, j).size());
  const V scale = hn::Div(one, hn::Max(largest, hn::Set(d, std::numeric_limits<R>::min())));
  const auto scaled = [&](L x) HWY_ATTR { return x.each([&](V v) HWY_ATTR { return hn::Mul(v, scale); }); };
  V rest = zero;
  for (int64_t i = j + 1; i < rows; ++i) {
    const L x = scaled(a.get(i, j));
    rest = hn::Add(rest, plus_inner<T>(L::set(0), x, x).real_part());
  }
  const L first = scaled(alpha);
  const V re = first.real_part(), im = imag_part_of<T>(first);
  const auto nothing = hn::And(hn::Eq(rest, zero), hn::Eq(im, zero));
  const V length = hn::Sqrt(hn::MulAdd(re, re, hn::MulAdd(im, im, rest))), beta = hn::Neg(hn::CopySign(length, re));
  const V divisor = hn::IfThenElse(nothing, one, beta);
  const L by = L::choose(nothing, L::set(1), from_parts<T>(hn::Sub(re, beta), im));
  const L inverse = L::set(1).over(by);
  for (int64_t i = j + 1; i < rows; ++i) a.put(i, j, scaled(a.get(i, j)).times(inverse));
  // The diagonal where nothing is to be done stays as it is.
  a.put(j, j, L::choose(nothing, alpha, L::real(hn::Div(beta, scale))));
  const V tau_re = hn::Div(hn::Sub(beta, re), divisor), tau_im = hn::Div(hn::Neg(im), divisor);
  return from_parts<T>(hn::IfThenElse(nothing, zero, tau_re), hn::IfThenElse(nothing, zero, tau_im));
}

// Factors taus of the reflections of a matrix, and inner products of those that go in pairs.
template <class T>
struct Factors {
  internal::Scratch memory;
  LaneMatrix<T> taus, inner;
  explicit Factors(int64_t count)
      : memory(2 * LaneMatrix<T>::bytes(1, count)),
        taus{memory.template as<Real<T>>(), count},
        inner{taus.at(1, 0), count} {}
};

// k reflections, which all of the n columns go through.
template <class T>
void factor_columns(typename Columns<T>::Place w, int64_t m, int64_t n, int64_t k, const Factors<T>& f) {
  const LaneMatrix<T> taus = f.taus, inner = f.inner;
  int64_t pairs = 0;
  for_tiles<kTogether<T>>(0, n, [&](int64_t c, auto width) HWY_ATTR {
    const int64_t before = std::min(c, k), end = c + width();
    for (; 2 * pairs + 1 < before; ++pairs) inner.put(0, pairs, inner_of_pair<T>(w, m, 2 * pairs));
    int64_t j = 0;
    for (; j + 1 < before; j += 2)
      reflect_by_pair<width(), false>(w, m, j, taus.get(0, j).conj(), taus.get(0, j + 1).conj(), inner.get(0, j / 2),
                                      c);
    if (j < before) reflect_columns<width()>(w, m, j, taus.get(0, j).conj(), c);
    for (j = c; j < std::min(end, k); ++j) {
      const Lanes<T> t = make_reflection<T>(w, m, j);
      taus.put(0, j, t);
      with_count(end - j - 1, [&](auto right) HWY_ATTR {
        if constexpr (right() > 0) reflect_columns<right()>(w, m, j, t.conj(), j + 1);
      });
    }
  });
}

// The first n columns of the product, in the place of the vectors.
template <class T>
void form_product(typename Columns<T>::Place w, int64_t m, int64_t n, int64_t reflections, const Factors<T>& f) {
  using L = Lanes<T>;
  const LaneMatrix<T> taus = f.taus, inner = f.inner;
  const L zero = L::set(0), one = L::set(1);
  for (int64_t j = 0; j + 1 < reflections; j += 2) inner.put(0, j / 2, inner_of_pair<T>(w, m, j));
  for (int64_t j = reflections; j < n; ++j)
    for (int64_t i = 0; i < m; ++i) w.put(i, j, i == j ? one : zero);
  // From the last columns on: those before them still have the vectors.
  const auto columns_at = [&](int64_t c, auto width) HWY_ATTR {
    const int64_t end = c + width();
    for (int64_t j = std::min(end, reflections) - 1; j >= c; --j) {
      const L t = taus.get(0, j);
      with_count(end - j - 1, [&](auto right) HWY_ATTR {
        if constexpr (right() > 0) reflect_columns<right()>(w, m, j, t, j + 1);
      });
      for (int64_t i = 0; i < j; ++i) w.put(i, j, zero);
      w.put(j, j, one.minus_product(one, t));
      for (int64_t i = j + 1; i < m; ++i) w.put(i, j, zero.minus_product(w.get(i, j), t));
    }
    const int64_t before = std::min(c, reflections), in_pairs = before / 2 * 2;
    if (in_pairs < before) reflect_columns<width()>(w, m, in_pairs, taus.get(0, in_pairs), c);
    for (int64_t j = in_pairs - 2; j >= 0; j -= 2)
      reflect_by_pair<width(), true>(w, m, j, taus.get(0, j), taus.get(0, j + 1), inner.get(0, j / 2), c);
  };
  constexpr int64_t kAll = kTogether<T>;
  const int64_t whole = n / kAll * kAll;
  for (int64_t c = n - 1; c >= whole; --c) columns_at(c, std::integral_constant<int, 1>());
  for (int64_t c = whole - kAll; c >= 0; c -= kAll) columns_at(c, std::integral_constant<int, kAll>());
}

template <class T>
void small_qr(int64_t count, int64_t m, int64_t n, const Group<const T>& from, const Group<T>& a, T* tau) {
  const Columns<T> columns(m, n);
  columns.load(count, from);
  const int64_t k = std::min(m, n);
  const Factors<T> f(k);
  factor_columns<T>(columns.place(), m, n, k, f);
  columns.store(count, a);
  f.taus.store(count, 1, {tau, k, k, 1});
}

template <class T>
void small_product(int64_t count, int64_t m, int64_t n, int64_t reflections, const T* tau, int64_t tau_step,
                   const Group<T>& q) {
  const Columns<T> columns(m, n);
  columns.load(count, reading(q));
  const Factors<T> f(reflections);
  f.taus.load(count, 1, {tau, tau_step, reflections, 1});
  form_product<T>(columns.place(), m, n, reflections, f);
  columns.store(count, q);
}

// Both, m >= n: nothing goes to memory but Q and R.
template <class T>
void small_factors(int64_t count, int64_t m, int64_t n, const Group<const T>& from, const Group<T>& q,
                   const Group<T>& r) {
  const Columns<T> columns(m, n);
  columns.load(count, from);
  const auto w = columns.place();
  const Factors<T> f(n);
  factor_columns<T>(w, m, n, n, f);
  if (columns.has_rows(count, r)) {
    for (int64_t i = 0; i < n; ++i) columns.store_upper(r, i);
  } else {
    const Columns<T> triangle(n, n);
    const auto x = triangle.place();
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = 0; i < n; ++i) x.put(i, j, i > j ? Lanes<T>::set(0) : w.get(i, j));
    triangle.store(count, r);
  }
  form_product<T>(w, m, n, n, f);
  columns.store(count, q);
}

template <class T>
int64_t lanes() {
  return Lanes<T>::kCount;
}
template <class T>
constexpr SmallKernels<T> kSmallKernels = {
    .lanes = lanes<T>, .qr = small_qr<T>, .product = small_product<T>, .factors = small_factors<T>};

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::orthogonal
HWY_AFTER_NAMESPACE();

#endif
