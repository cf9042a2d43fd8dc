// Small matrices by the group: a matrix in each lane of vectors, so that what one does all do at once; rows are
// exchanged under masks. Included once per SIMD target.
#if defined(TESSERA_LINALG_SMALL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_LINALG_SMALL_INL
#undef TESSERA_LINALG_SMALL_INL
#else
#define TESSERA_LINALG_SMALL_INL
#endif

#include "hwy/highway.h"
#include "linalg/cpu/blocks.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::factor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A number in each lane. kParts vectors in memory.
template <class T>
struct Lanes {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  using Real = V;
  static constexpr int kParts = 1;
  static constexpr int64_t kCount = HWY_MAX_BYTES / sizeof(T);
  V v;

  static HWY_INLINE Lanes load(const T* p) { return {hn::LoadU(D(), p)}; }
  HWY_INLINE void store(T* p) const { hn::StoreU(v, D(), p); }
  static HWY_INLINE Lanes set(T x) { return {hn::Set(D(), x)}; }
  static HWY_INLINE Lanes real(V v) { return {v}; }
  HWY_INLINE Lanes minus_product(Lanes a, Lanes b) const { return {hn::NegMulAdd(a.v, b.v, v)}; }
  HWY_INLINE Lanes over(Lanes b) const { return {hn::Div(v, b.v)}; }
  HWY_INLINE Lanes over_real(V b) const { return {hn::Div(v, b)}; }
  HWY_INLINE Lanes conj() const { return *this; }
  HWY_INLINE V size() const { return hn::Abs(v); }
  HWY_INLINE V real_part() const { return v; }
  template <class M>
  static HWY_INLINE Lanes choose(M m, Lanes a, Lanes b) {
    return {hn::IfThenElse(m, a.v, b.v)};
  }
};

template <class R>
struct Lanes<std::complex<R>> {
  using D = hn::ScalableTag<R>;
  using V = hn::Vec<D>;
  using Real = V;
  static constexpr int kParts = 2;
  static constexpr int64_t kCount = HWY_MAX_BYTES / sizeof(R);
  V re, im;

  static HWY_INLINE Lanes load(const R* p) { return {hn::LoadU(D(), p), hn::LoadU(D(), p + kCount)}; }
  HWY_INLINE void store(R* p) const {
    hn::StoreU(re, D(), p);
    hn::StoreU(im, D(), p + kCount);
  }
  static HWY_INLINE Lanes set(R x) { return {hn::Set(D(), x), hn::Zero(D())}; }
  static HWY_INLINE Lanes real(V v) { return {v, hn::Zero(D())}; }
  HWY_INLINE Lanes minus_product(Lanes a, Lanes b) const {
    return {hn::MulAdd(a.im, b.im, hn::NegMulAdd(a.re, b.re, re)),
            hn::NegMulAdd(a.im, b.re, hn::NegMulAdd(a.re, b.im, im))};
  }
  // By Smith's method: neither part's square overflows.
  HWY_INLINE Lanes over(Lanes b) const {
    const auto real_larger = hn::Ge(hn::Abs(b.re), hn::Abs(b.im));
    const V large = hn::IfThenElse(real_larger, b.re, b.im), small = hn::IfThenElse(real_larger, b.im, b.re);
    const V ratio = hn::Div(small, large), scale = hn::MulAdd(small, ratio, large);
    const V first = hn::IfThenElse(real_larger, re, im), second = hn::IfThenElse(real_larger, im, re);
    const V imaginary = hn::NegMulAdd(first, ratio, second);
    return {hn::Div(hn::MulAdd(second, ratio, first), scale),
            hn::Div(hn::IfThenElse(real_larger, imaginary, hn::Neg(imaginary)), scale)};
  }
  HWY_INLINE Lanes over_real(V b) const { return {hn::Div(re, b), hn::Div(im, b)}; }
  HWY_INLINE Lanes conj() const { return {re, hn::Neg(im)}; }
  HWY_INLINE V size() const { return hn::Add(hn::Abs(re), hn::Abs(im)); }
  HWY_INLINE V real_part() const { return re; }
  template <class M>
  static HWY_INLINE Lanes choose(M m, Lanes a, Lanes b) {
    return {hn::IfThenElse(m, a.re, b.re), hn::IfThenElse(m, a.im, b.im)};
  }
};

// Matrices in lanes: element (i, j) of all of them at data + (i cols + j) step.
template <class T>
struct LaneMatrix {
  using L = Lanes<T>;
  using R = real_of<T>;
  static constexpr int64_t kStep = L::kParts * L::kCount;
  R* data;
  int64_t cols;

  HWY_INLINE R* at(int64_t i, int64_t j) const { return data + (i * cols + j) * kStep; }
  HWY_INLINE L get(int64_t i, int64_t j) const { return L::load(at(i, j)); }
  HWY_INLINE void put(int64_t i, int64_t j, L x) const { x.store(at(i, j)); }

  static int64_t bytes(int64_t rows, int64_t cols) { return rows * cols * kStep * static_cast<int64_t>(sizeof(R)); }
  // Lanes without a matrix get that of the last one.
  void load(int64_t count, int64_t rows, Group<const T> from) const {
    for (int64_t lane = 0; lane < L::kCount; ++lane) {
      const T* const m = from.data + std::min(lane, count - 1) * from.step;
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j) write(i, j, lane, m[i * from.row + j * from.col]);
    }
  }
  void store(int64_t count, int64_t rows, Group<T> to) const {
    for (int64_t lane = 0; lane < count; ++lane) {
      T* const m = to.data + lane * to.step;
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j) m[i * to.row + j * to.col] = read(i, j, lane);
    }
  }
  HWY_INLINE void write(int64_t i, int64_t j, int64_t lane, T x) const {
    R* const p = at(i, j) + lane;
    if constexpr (kIsComplex<T>) {
      p[0] = x.real();
      p[L::kCount] = x.imag();
    } else {
      p[0] = x;
    }
  }
  HWY_INLINE T read(int64_t i, int64_t j, int64_t lane) const {
    const R* const p = at(i, j) + lane;
    if constexpr (kIsComplex<T>)
      return T(p[0], p[L::kCount]);
    else
      return p[0];
  }
};

template <class T>
Group<const T> reading(Group<T> g) {
  return {g.data, g.step, g.row, g.col};
}

// Numbers of lanes, as integers to memory.
template <class T>
void store_numbers(typename Lanes<T>::V v, int64_t count, int32_t* to, int64_t step) {
  real_of<T> numbers[Lanes<T>::kCount];
  hn::StoreU(v, typename Lanes<T>::D(), numbers);
  for (int64_t i = 0; i < count; ++i) to[i * step] = static_cast<int32_t>(numbers[i]);
}

// Where lanes' `chosen` is the row, this row of a and row k change places.
template <class T>
HWY_INLINE void exchange_rows(const LaneMatrix<T>& a, int64_t k, int64_t rows, typename Lanes<T>::V chosen) {
  using L = Lanes<T>;
  const typename L::D d;
  for (int64_t i = k + 1; i < rows; ++i) {
    const auto here = hn::Eq(chosen, hn::Set(d, static_cast<real_of<T>>(i)));
    if (hn::AllFalse(d, here)) continue;
    for (int64_t j = 0; j < a.cols; ++j) {
      const L x = a.get(k, j), y = a.get(i, j);
      a.put(k, j, L::choose(here, y, x));
      a.put(i, j, L::choose(here, x, y));
    }
  }
}

// Rows [first, rows) minus multiples of row k, whose factors are in column k, from column `column` on.
template <class T>
HWY_INLINE void eliminate(const LaneMatrix<T>& a, int64_t k, int64_t first, int64_t rows, int64_t column) {
  using L = Lanes<T>;
  int64_t i = first;
  for (; i + 2 <= rows; i += 2) {
    const L f = a.get(i, k), g = a.get(i + 1, k);
    for (int64_t j = column; j < a.cols; ++j) {
      const L x = a.get(k, j);
      a.put(i, j, a.get(i, j).minus_product(f, x));
      a.put(i + 1, j, a.get(i + 1, j).minus_product(g, x));
    }
  }
  if (i < rows) {
    const L f = a.get(i, k);
    for (int64_t j = column; j < a.cols; ++j) a.put(i, j, a.get(i, j).minus_product(f, a.get(k, j)));
  }
}

// Calls each(k, chosen) with every pivot's row in lanes; the info of all lanes.
template <class T, class F>
typename Lanes<T>::V factor_lanes(const LaneMatrix<T>& a, int64_t m, F&& each) {
  using L = Lanes<T>;
  using R = real_of<T>;
  const typename L::D d;
  auto info = hn::Zero(d);
  const int64_t n = std::min(m, a.cols);
  for (int64_t k = 0; k < n; ++k) {
    auto most = hn::Set(d, R{-1}), chosen = hn::Set(d, static_cast<R>(k));
    for (int64_t i = k; i < m; ++i) {
      const auto size = a.get(i, k).size();
      const auto larger = hn::Gt(size, most);
      most = hn::IfThenElse(larger, size, most);
      chosen = hn::IfThenElse(larger, hn::Set(d, static_cast<R>(i)), chosen);
    }
    each(k, chosen);
    exchange_rows(a, k, m, chosen);
    const auto zero = hn::Eq(most, hn::Zero(d));
    const auto is_first = hn::And(zero, hn::Eq(info, hn::Zero(d)));
    info = hn::IfThenElse(is_first, hn::Set(d, static_cast<R>(k + 1)), info);
    const L pivot = L::choose(zero, L::set(1), a.get(k, k));
    for (int64_t i = k + 1; i < m; ++i) a.put(i, k, a.get(i, k).over(pivot));
    eliminate(a, k, k + 1, m, k + 1);
  }
  return info;
}

template <class T>
void small_lu(int64_t count, int64_t m, int64_t n, Group<T> a, int32_t* pivots, int32_t* info) {
  const Scratch memory(LaneMatrix<T>::bytes(m, n));
  const LaneMatrix<T> w{memory.as<real_of<T>>(), n};
  w.load(count, m, reading(a));
  const int64_t size = std::min(m, n);
  const typename Lanes<T>::D d;
  const auto found = factor_lanes(w, m, [&](int64_t k, typename Lanes<T>::V chosen) HWY_ATTR {
    store_numbers<T>(hn::Add(chosen, hn::Set(d, 1)), count, pivots + k, size);
  });
  store_numbers<T>(found, count, info, 1);
  w.store(count, m, a);
}

// x = L^-1 x, then, with `upper`, U^-1 of that, where w holds both.
template <class T>
void solve_lanes(const LaneMatrix<T>& w, int64_t n, const LaneMatrix<T>& x) {
  using L = Lanes<T>;
  for (int64_t i = 1; i < n; ++i)
    for (int64_t p = 0; p < i; ++p) {
      const L f = w.get(i, p);
      for (int64_t j = 0; j < x.cols; ++j) x.put(i, j, x.get(i, j).minus_product(f, x.get(p, j)));
    }
  for (int64_t i = n - 1; i >= 0; --i) {
    for (int64_t p = i + 1; p < n; ++p) {
      const L f = w.get(i, p);
      for (int64_t j = 0; j < x.cols; ++j) x.put(i, j, x.get(i, j).minus_product(f, x.get(p, j)));
    }
    const L pivot = w.get(i, i);
    for (int64_t j = 0; j < x.cols; ++j) x.put(i, j, x.get(i, j).over(pivot));
  }
}

template <class T>
void small_inverse(int64_t count, int64_t n, Group<T> a, int32_t* info) {
  using L = Lanes<T>;
  const Scratch memory(2 * LaneMatrix<T>::bytes(n, n));
  const LaneMatrix<T> w{memory.as<real_of<T>>(), n};
  const LaneMatrix<T> x{w.at(n, 0), n};
  w.load(count, n, reading(a));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) x.put(i, j, L::set(i == j ? 1 : 0));
  const auto found =
      factor_lanes(w, n, [&](int64_t k, typename L::V chosen) HWY_ATTR { exchange_rows(x, k, n, chosen); });
  store_numbers<T>(found, count, info, 1);
  solve_lanes(w, n, x);
  x.store(count, n, a);
}

template <class T>
void small_cholesky(int64_t count, int64_t n, Group<T> a, int32_t* info) {
  using L = Lanes<T>;
  using R = real_of<T>;
  const typename L::D d;
  const Scratch memory(LaneMatrix<T>::bytes(n, n));
  const LaneMatrix<T> w{memory.as<R>(), n};
  w.load(count, n, reading(a));
  auto found = hn::Zero(d);
  for (int64_t k = 0; k < n; ++k) {
    const auto pivot = w.get(k, k).real_part();
    const auto bad = hn::Not(hn::Gt(pivot, hn::Zero(d)));
    const auto is_first = hn::And(bad, hn::Eq(found, hn::Zero(d)));
    found = hn::IfThenElse(is_first, hn::Set(d, static_cast<R>(k + 1)), found);
    const auto root = hn::Sqrt(hn::IfThenElse(bad, hn::Set(d, 1), pivot));
    w.put(k, k, L::real(root));
    for (int64_t i = k + 1; i < n; ++i) w.put(i, k, w.get(i, k).over_real(root));
    for (int64_t i = k + 1; i < n; ++i) {
      const L f = w.get(i, k);
      for (int64_t j = k + 1; j <= i; ++j) w.put(i, j, w.get(i, j).minus_product(f, w.get(j, k).conj()));
    }
    for (int64_t j = k + 1; j < n; ++j) w.put(k, j, L::set(0));
  }
  store_numbers<T>(found, count, info, 1);
  w.store(count, n, a);
}

template <class T>
void small_solve(int64_t count, int64_t n, int64_t width, Group<const T> a, bool unit, bool conj, Group<T> b) {
  using L = Lanes<T>;
  const Scratch memory(LaneMatrix<T>::bytes(n, n + width));
  const LaneMatrix<T> w{memory.as<real_of<T>>(), n};
  const LaneMatrix<T> x{w.at(n, 0), width};
  for (int64_t lane = 0; lane < L::kCount; ++lane) {
    const T* const m = a.data + std::min(lane, count - 1) * a.step;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j <= i; ++j) w.write(i, j, lane, conj_if(m[i * a.row + j * a.col], conj));
  }
  x.load(count, n, reading(b));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t p = 0; p < i; ++p) {
      const L f = w.get(i, p);
      for (int64_t j = 0; j < width; ++j) x.put(i, j, x.get(i, j).minus_product(f, x.get(p, j)));
    }
    if (unit) continue;
    const L pivot = w.get(i, i);
    for (int64_t j = 0; j < width; ++j) x.put(i, j, x.get(i, j).over(pivot));
  }
  x.store(count, n, b);
}

template <class T>
int64_t lanes() {
  return Lanes<T>::kCount;
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::factor
HWY_AFTER_NAMESPACE();

#endif
