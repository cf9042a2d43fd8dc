// Small matrices by the group: a matrix in each lane of vectors, so that what one does all do at once. Included once
// per SIMD target.
#if defined(TESSERA_LINALG_LANE_MATRIX_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_LINALG_LANE_MATRIX_INL
#undef TESSERA_LINALG_LANE_MATRIX_INL
#else
#define TESSERA_LINALG_LANE_MATRIX_INL
#endif

#include "hwy/highway.h"
#include <type_traits>

#include "linalg/cpu/batches.h"
#include "tensor/cpu/support/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::numbers {
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
  HWY_INLINE Lanes times(Lanes b) const { return {hn::Mul(v, b.v)}; }
  HWY_INLINE Lanes over(Lanes b) const { return {hn::Div(v, b.v)}; }
  template <class F>
  HWY_INLINE Lanes each(const F& f) const {
    return {f(v)};
  }
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
  HWY_INLINE Lanes times(Lanes b) const {
    return {hn::NegMulAdd(im, b.im, hn::Mul(re, b.re)), hn::MulAdd(im, b.re, hn::Mul(re, b.im))};
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
  template <class F>
  HWY_INLINE Lanes each(const F& f) const {
    return {f(re), f(im)};
  }
  HWY_INLINE Lanes conj() const { return {re, hn::Neg(im)}; }
  HWY_INLINE V size() const { return hn::Add(hn::Abs(re), hn::Abs(im)); }
  HWY_INLINE V real_part() const { return re; }
  template <class M>
  static HWY_INLINE Lanes choose(M m, Lanes a, Lanes b) {
    return {hn::IfThenElse(m, a.re, b.re), hn::IfThenElse(m, a.im, b.im)};
  }
};

// What is wanted of matrices; of a triangle, some of the rest comes along.
enum class Part : uint8_t { kAll, kLower, kUpper };

// Matrices in lanes: element (i, j) of all of them at data + (i pitch + j) step.
template <class T>
struct LaneMatrix {
  using L = Lanes<T>;
  using R = Real<T>;
  static constexpr int64_t kStep = L::kParts * L::kCount;
  R* data;
  int64_t cols;

  HWY_INLINE R* at(int64_t i, int64_t j) const { return data + (i * pitch(cols) + j) * kStep; }
  HWY_INLINE L get(int64_t i, int64_t j) const { return L::load(at(i, j)); }
  HWY_INLINE void put(int64_t i, int64_t j, L x) const { x.store(at(i, j)); }

  // Odd for many: rows a power of two apart would share lines of the cache.
  static HWY_INLINE int64_t pitch(int64_t cols) { return cols < 32 ? cols : cols | 1; }
  static int64_t bytes(int64_t rows, int64_t cols) {
    return rows * pitch(cols) * kStep * static_cast<int64_t>(sizeof(R));
  }
  // Lanes without a matrix get that of the last one.
  void load(int64_t count, int64_t rows, Group<const T> from, Part part = Part::kAll) const {
    if (count == L::kCount && move_runs<true>(rows, from.data, from, part)) return;
    for (int64_t lane = 0; lane < L::kCount; ++lane) {
      const T* const m = from.data + std::min(lane, count - 1) * from.step;
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j) write(i, j, lane, m[i * from.row + j * from.col]);
    }
  }
  void store(int64_t count, int64_t rows, Group<T> to) const {
    if (count == L::kCount && move_runs<false>(rows, to.data, to)) return;
    for (int64_t lane = 0; lane < count; ++lane) {
      T* const m = to.data + lane * to.step;
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j) m[i * to.row + j * to.col] = read(i, j, lane);
    }
  }
  // By transposing tiles of as many elements as there are lanes, where so many follow each other; else false.
  template <bool kLoad, class P, class G>
  bool move_runs(int64_t rows, P* data, const G& g, Part part = Part::kAll) const {
    // Of the numbers of a line that are wanted, from `diagonal` on or up to it, whole tiles.
    const auto run = [&](P* from, R* lanes, int64_t numbers, int64_t distance, Part wanted, int64_t diagonal) {
      const int64_t tile = diagonal / L::kCount * L::kCount;
      const int64_t begin = wanted == Part::kUpper ? std::min(tile, numbers - L::kCount) : 0;
      const int64_t end = wanted == Part::kLower ? std::min(tile + L::kCount, numbers) : numbers;
      auto* const reals = reinterpret_cast<std::conditional_t<kLoad, const R, R>*>(from) + begin;
      move_run<kLoad>(reals, end - begin, g.step, lanes + begin * distance, distance);
    };
    const int64_t numbers = cols * L::kParts;
    if (g.col == 1 && g.row == cols && pitch(cols) == cols && rows * numbers >= L::kCount &&
        (part == Part::kAll || numbers <= L::kCount)) {
      run(data, this->data, rows * numbers, L::kCount, Part::kAll, 0);
    } else if (g.col == 1 && numbers >= L::kCount) {
      for (int64_t i = 0; i < rows; ++i)
        run(data + i * g.row, at(i, 0), numbers, L::kCount, part, std::min(i, cols - 1) * L::kParts);
    } else if (g.row == 1 && L::kParts == 1 && rows >= L::kCount) {
      const Part of_columns = part == Part::kAll ? part : part == Part::kLower ? Part::kUpper : Part::kLower;
      for (int64_t j = 0; j < cols; ++j)
        run(data + j * g.col, at(0, j), rows, pitch(cols) * L::kCount, of_columns, std::min(j, rows - 1));
    } else {
      return false;
    }
    return true;
  }
  // So many numbers from `memory` on, of matrices `step` elements apart; in lanes they are `distance` numbers apart.
  // One copy for all that call it.
  template <bool kLoad, class P>
  static HWY_NOINLINE void move_run(P* memory, int64_t numbers, int64_t step, R* lanes, int64_t distance) {
    for (int64_t e = 0; e < numbers; e += L::kCount)
      move_tile<kLoad>(memory, std::min(e, numbers - L::kCount), step, lanes, distance);
  }
  template <bool kLoad, class P>
  static HWY_INLINE void move_tile(P* memory, int64_t e, int64_t step, R* lanes, int64_t distance) {
    using U = std::conditional_t<sizeof(R) == 4, uint32_t, uint64_t>;
    const hn::ScalableTag<U> d;
    constexpr int64_t kSize = static_cast<int64_t>(sizeof(R));
    auto* const outside = reinterpret_cast<std::conditional_t<kLoad, const char, char>*>(memory) + e * kSize;
    char* const inside = reinterpret_cast<char*>(lanes + e * distance);
    const int64_t apart = step * static_cast<int64_t>(sizeof(T));
    if constexpr (kLoad)
      cpu::HWY_NAMESPACE::transpose_tile(d, outside, apart, [&](int i, auto v) HWY_ATTR {
        hn::StoreU(v, d, reinterpret_cast<U*>(inside + i * distance * kSize));
      });
    else
      cpu::HWY_NAMESPACE::transpose_tile(d, inside, distance * kSize, [&](int lane, auto v) HWY_ATTR {
        hn::StoreU(v, d, reinterpret_cast<U*>(outside + lane * apart));
      });
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

// Calls f(i, tile rows, std::integral_constant) for rows [first, last) in tiles.
template <int kRows, class F>
HWY_INLINE void for_tiles(int64_t first, int64_t last, const F& f) {
  int64_t i = first;
  for (; i + kRows <= last; i += kRows) f(i, std::integral_constant<int, kRows>());
  for (; i < last; ++i) f(i, std::integral_constant<int, 1>());
}

// f(std::integral_constant) of a number below 4.
template <class F>
HWY_INLINE void with_count(int64_t n, const F& f) {
  if (n == 0) return f(std::integral_constant<int, 0>());
  if (n == 1) return f(std::integral_constant<int, 1>());
  if (n == 2) return f(std::integral_constant<int, 2>());
  f(std::integral_constant<int, 3>());
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::numbers
HWY_AFTER_NAMESPACE();

#endif
