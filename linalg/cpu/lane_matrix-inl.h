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
  // Lanes without a matrix get that of the last one. order: which row of each matrix, order[i * kCount + lane], comes
  // to row i; null: row i.
  HWY_NOINLINE void load(int64_t count, int64_t rows, Group<const T> from, Part part = Part::kAll,
                         const int32_t* order = nullptr) const {
    if (count == L::kCount && move_runs<true>(rows, from.data, from, part, order)) return;
    for (int64_t lane = 0; lane < L::kCount; ++lane) {
      const T* const m = from.data + std::min(lane, count - 1) * from.step;
      for (int64_t i = 0; i < rows; ++i) {
        const T* const row = m + (order ? order[i * L::kCount + lane] : i) * from.row;
        for (int64_t j = 0; j < cols; ++j) write(i, j, lane, row[j * from.col]);
      }
    }
  }
  // order: to which row of each matrix row i goes.
  HWY_NOINLINE void store(int64_t count, int64_t rows, Group<T> to, const int32_t* order = nullptr) const {
    if (count == L::kCount && move_runs<false>(rows, to.data, to, Part::kAll, order)) return;
    for (int64_t lane = 0; lane < count; ++lane) {
      T* const m = to.data + lane * to.step;
      for (int64_t i = 0; i < rows; ++i) {
        T* const row = m + (order ? order[i * L::kCount + lane] : i) * to.row;
        for (int64_t j = 0; j < cols; ++j) row[j * to.col] = read(i, j, lane);
      }
    }
  }
  static constexpr int64_t kTile = L::kCount / L::kParts;  // columns
  // Whether rows of a group move by some tiles each, so that rows or columns may come and go a few at a time.
  template <class G>
  bool has_tiles(int64_t count, const G& g, int64_t some) const {
    return count == L::kCount && g.col == 1 && cols >= some * kTile;
  }
  // Calls f(first, end) for columns kTile by kTile; the first ones are fewer.
  template <class F>
  HWY_INLINE void for_columns_of_tiles(const F& f) const {
    const int64_t rest = cols % kTile;
    if (rest) f(int64_t{0}, rest);
    for (int64_t j = rest; j < cols; j += kTile) f(j, j + kTile);
  }
  // Those columns of all rows, in that order, and what others are in their tile.
  void load_columns(int64_t rows, const Group<const T>& g, int64_t end, const int32_t* order) const {
    const int64_t tile = std::max<int64_t>(end - kTile, 0);
    for (int64_t i = 0; i < rows; ++i) move_line<true>(g.data + tile, g, i, order, at(i, tile), L::kCount, L::kCount);
  }
  // Row i of a triangle, and what is in its tiles beside it.
  void load_lower(const Group<const T>& g, int64_t i) const {
    move_line<true>(g.data, g, i, nullptr, at(i, 0), end_of_row(i), L::kCount);
  }
  // Row i is read next: caches that fetch ahead learn of it.
  static HWY_INLINE void expect_row(const Group<const T>& g, int64_t i) {
    const T* const row = g.data + i * g.row;
    for (int64_t lane = 0; lane < L::kCount; ++lane) {
      const char* const line = reinterpret_cast<const char*>(row + lane * g.step);
      __builtin_prefetch(line);
      __builtin_prefetch(line + 64);
    }
  }
  // With zeros beside it.
  void store_lower(const Group<T>& g, int64_t i) const {
    const int64_t end = end_of_row(i), numbers = cols * L::kParts;
    const auto zero = hn::Zero(typename L::D());
    for (int64_t e = (i + 1) * L::kParts; e < end; ++e) hn::StoreU(zero, typename L::D(), at(i, 0) + e * L::kCount);
    move_line<false>(g.data, g, i, nullptr, at(i, 0), end, L::kCount);
    write_zeros(reinterpret_cast<R*>(g.data + i * g.row) + end, numbers - end, g.step * L::kParts);
  }
  // n zeros for each lane.
  static void write_zeros(R* to, int64_t n, int64_t apart) {
    const int64_t whole = n / L::kCount * L::kCount;
    for (int64_t e = 0; e < whole; e += L::kCount)
      for (int64_t lane = 0; lane < L::kCount; ++lane)
        hn::StoreU(hn::Zero(typename L::D()), typename L::D(), to + lane * apart + e);
    for (int64_t e = whole; e < n; ++e)
      for (int64_t lane = 0; lane < L::kCount; ++lane) to[lane * apart + e] = 0;
  }
  // In numbers.
  int64_t end_of_row(int64_t i) const {
    return std::min((i * L::kParts / L::kCount + 1) * L::kCount, cols * L::kParts);
  }
  // By transposing tiles of as many elements as there are lanes, where so many follow each other; else false.
  template <bool kLoad, class P, class G>
  bool move_runs(int64_t rows, P* data, const G& g, Part part, const int32_t* order) const {
    // Of the numbers of a line that are wanted, from `diagonal` on or up to it, whole tiles.
    const auto begin_of = [](int64_t numbers, Part wanted, int64_t diagonal) {
      return wanted == Part::kUpper ? std::min(diagonal / L::kCount * L::kCount, numbers - L::kCount) : 0;
    };
    const auto end_of = [](int64_t numbers, Part wanted, int64_t diagonal) {
      return wanted == Part::kLower ? std::min((diagonal / L::kCount + 1) * L::kCount, numbers) : numbers;
    };
    const int64_t numbers = cols * L::kParts;
    if (!order && g.col == 1 && g.row == cols && pitch(cols) == cols && rows * numbers >= L::kCount &&
        (part == Part::kAll || numbers <= L::kCount)) {
      move_run<kLoad>(data, rows * numbers, g.step, this->data, L::kCount);
    } else if (g.col == 1 && numbers >= L::kCount) {
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t diagonal = std::min(i, cols - 1) * L::kParts, begin = begin_of(numbers, part, diagonal);
        move_line<kLoad>(data + begin / L::kParts, g, i, order, at(i, 0) + begin * L::kCount,
                         end_of(numbers, part, diagonal) - begin, L::kCount);
      }
    } else if (!order && g.row == 1 && L::kParts == 1 && rows >= L::kCount) {
      const Part of_columns = part == Part::kAll ? part : part == Part::kLower ? Part::kUpper : Part::kLower;
      for (int64_t j = 0; j < cols; ++j) {
        const int64_t diagonal = std::min(j, rows - 1), begin = begin_of(rows, of_columns, diagonal);
        move_run<kLoad>(data + j * g.col + begin, end_of(rows, of_columns, diagonal) - begin, g.step, at(begin, j),
                        pitch(cols) * L::kCount);
      }
    } else {
      return false;
    }
    return true;
  }
  // Of row i, or of the rows that `order` has there.
  template <bool kLoad, class P, class G>
  static HWY_INLINE void move_line(P* data, const G& g, int64_t i, const int32_t* order, R* lanes, int64_t numbers,
                                   int64_t distance) {
    if (order)
      move_run<kLoad>(data, numbers, g.step, lanes, distance, order + i * L::kCount, g.row);
    else
      move_run<kLoad>(data + i * g.row, numbers, g.step, lanes, distance);
  }
  static constexpr int32_t kNoRows[L::kCount] = {};
  // So many numbers from `memory` on, of matrices `step` elements apart, and from rows[lane] times `row` elements
  // behind that; in lanes they are `distance` numbers apart. One copy for all that call it.
  template <bool kLoad, class P>
  static HWY_NOINLINE void move_run(P* memory, int64_t numbers, int64_t step, R* lanes, int64_t distance,
                                    const int32_t* rows = kNoRows, int64_t row = 0) {
    using U = std::conditional_t<sizeof(R) == 4, uint32_t, uint64_t>;
    const hn::ScalableTag<U> d;
    constexpr int64_t kSize = static_cast<int64_t>(sizeof(R));
    P* of_lanes[L::kCount];
    for (int64_t lane = 0; lane < L::kCount; ++lane) of_lanes[lane] = memory + lane * step + rows[lane] * row;
    for (int64_t at = 0; at < numbers; at += L::kCount) {
      const int64_t e = std::min(at, numbers - L::kCount);
      char* const inside = reinterpret_cast<char*>(lanes + e * distance);
      const auto outside = [&](int lane) HWY_ATTR {
        return reinterpret_cast<std::conditional_t<kLoad, const char, char>*>(of_lanes[lane]) + e * kSize;
      };
      if constexpr (kLoad)
        cpu::HWY_NAMESPACE::transpose_rows(d, outside, [&](int i, auto v) HWY_ATTR {
          hn::StoreU(v, d, reinterpret_cast<U*>(inside + i * distance * kSize));
        });
      else
        cpu::HWY_NAMESPACE::transpose_tile(d, inside, distance * kSize, [&](int lane, auto v) HWY_ATTR {
          hn::StoreU(v, d, reinterpret_cast<U*>(outside(lane)));
        });
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
