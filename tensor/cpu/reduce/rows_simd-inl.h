// Rows of floats in vectors: their ragged ends, stores past the caches, and sums of exponentials. Included inside
// foreach_target.h's passes.
#if defined(TESSERA_CPU_ROWS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_ROWS_SIMD_INL_H_
#undef TESSERA_CPU_ROWS_SIMD_INL_H_
#else
#define TESSERA_CPU_ROWS_SIMD_INL_H_
#endif

#include <cstdint>
#include <cstring>
#include <limits>

#include "hwy/highway.h"
#include "tensor/cpu/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
constexpr int64_t kWidthOf = HWY_LANES(T);
template <class T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();

// The first n elements at p (at most a vector of them), then `pad`. Reads no others.
template <class D, class T>
HWY_INLINE hn::Vec<D> LoadFirst(D d, const T* p, int64_t n, T pad) {
#if HWY_TARGET == HWY_SSE4
  HWY_ALIGN T buffer[HWY_LANES(T)];
  hn::Store(hn::Set(d, pad), d, buffer);
  std::memcpy(buffer, p, static_cast<size_t>(n) * sizeof(T));
  return hn::Load(d, buffer);
#else
  const auto mask = hn::FirstN(d, static_cast<size_t>(n));
  return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, p), hn::Set(d, pad));
#endif
}
template <class D, class T>
HWY_INLINE void StoreFirst(hn::Vec<D> v, D d, T* p, int64_t n) {
#if HWY_TARGET == HWY_SSE4
  HWY_ALIGN T buffer[HWY_LANES(T)];
  hn::Store(v, d, buffer);
  std::memcpy(p, buffer, static_cast<size_t>(n) * sizeof(T));
#else
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(n)), d, p);
#endif
}

// Elements from the start of a vector on: all of one, or the first few.
template <class T>
struct Whole {
  int64_t at;
  HWY_INLINE hn::Vec<hn::ScalableTag<T>> operator()(const T* p) const {
    return hn::LoadU(hn::ScalableTag<T>(), p + at);
  }
};
template <class T>
struct First {
  int64_t at, n;
  HWY_INLINE hn::Vec<hn::ScalableTag<T>> operator()(const T* p) const {
    return LoadFirst(hn::ScalableTag<T>(), p + at, n, T{0});
  }
};

// y[0..n) = f(load), where load(p) gives the elements of p at the same place. `stream`: past the caches, with a fence
// to follow.
template <class T, class F>
HWY_INLINE void FillRow(T* y, int64_t n, bool stream, F&& f) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kWidth = kWidthOf<T>;
  const auto part = [&](int64_t at, int64_t count) HWY_ATTR { StoreFirst(f(First<T>{at, count}), d, y + at, count); };
  int64_t i = stream ? static_cast<int64_t>(-reinterpret_cast<uintptr_t>(y) / sizeof(T) & (kWidth - 1)) : 0;
  for (int64_t at = 0, count = HWY_MIN(i, n);
       ;) {  // what lies before the first vector, then what is left after the last
    if (count > 0) part(at, count);
    if (at + count >= n) return;
    for (; i + kWidth <= n; i += kWidth) {
      const auto v = f(Whole<T>{i});
      if (stream)
        hn::Stream(v, d, y + i);
      else
        hn::StoreU(v, d, y + i);
    }
    at = i;
    count = n - i;
  }
}

// The largest element; what a NaN does to it is not defined.
template <class T>
HWY_INLINE T MaxOfRow(const T* HWY_RESTRICT x, int64_t n) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kWidth = kWidthOf<T>;
  auto m0 = hn::Set(d, -kInfinity<T>), m1 = m0, m2 = m0, m3 = m0;
  int64_t i = 0;
  for (; i + 4 * kWidth <= n; i += 4 * kWidth) {
    m0 = hn::Max(m0, hn::LoadU(d, x + i));
    m1 = hn::Max(m1, hn::LoadU(d, x + i + kWidth));
    m2 = hn::Max(m2, hn::LoadU(d, x + i + 2 * kWidth));
    m3 = hn::Max(m3, hn::LoadU(d, x + i + 3 * kWidth));
  }
  for (; i + kWidth <= n; i += kWidth) m0 = hn::Max(m0, hn::LoadU(d, x + i));
  if (i < n) m1 = hn::Max(m1, LoadFirst(d, x + i, n - i, -kInfinity<T>));
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(m0, m1), hn::Max(m2, m3))));
}

// e^x for x <= 0. float32 is not left to math::Exp: its last bits of accuracy, which nobody sees in a quotient of sums,
// would cost softmax a quarter of its speed.
template <class D, class V>
HWY_INLINE V ExpBelow0(D d, V x) {
  using T = hn::TFromD<D>;
  if constexpr (sizeof(T) == 8) {
    return math::Exp(d, x);
  } else {
    const V low = hn::Set(d, static_cast<T>(math::Fp<T>::kExpLow));
    const auto some = hn::Not(hn::Lt(x, low));
#if HWY_TARGET != HWY_AVX3
    x = hn::Max(low, x);
#endif
    V n;
    const V r = math::ReduceByLn2(d, x, n);
    constexpr double kC[] = {1.0,
                             1.0,
                             0.5,
                             0.1666657684599397631,
                             0.0416665544376859389,
                             0.008363202971575854947,
                             0.001392621346633244304};  // of e^r, to 1.1e-8
    return math::ScaleSome(d, some, math::Polynomial(d, r, kC), n);
  }
}

// sum exp(x - max), in float64 beyond kSumBlock elements. If they are not null: terms takes what is summed, and memory
// at next is fetched meanwhile.
constexpr int64_t kSumBlock = 1024;
template <class T>
HWY_NOINLINE double SumExpOfRow(const T* x, int64_t n, T max, T* terms, const T* next) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kWidth = kWidthOf<T>;
  const auto m = hn::Set(d, max);
  double total = 0;
  for (int64_t b = 0; b < n; b += kSumBlock) {
    const int64_t end = HWY_MIN(n, b + kSumBlock);
    auto sum = hn::Zero(d);
    int64_t i = b;
    for (; i + kWidth <= end; i += kWidth) {
      if (next) __builtin_prefetch(next + i);
      const auto e = ExpBelow0(d, hn::Sub(hn::LoadU(d, x + i), m));
      if (terms) hn::StoreU(e, d, terms + i);
      sum = hn::Add(sum, e);
    }
    if (i < end) {
      const auto e = ExpBelow0(d, hn::Sub(LoadFirst(d, x + i, end - i, -kInfinity<T>), m));
      if (terms) StoreFirst(e, d, terms + i, end - i);
      sum = hn::Add(sum, e);
    }
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
  return total;
}

// One vector of columns, n rows further: the running maximum and the sum of exponentials below it. next: rows to fetch
// meanwhile, or null. The maximum begins at the lowest number, so that a column that has been -inf so far keeps a sum
// of 0.
template <class T, class Load>
HWY_INLINE void StepColumns(const char* x, const char* next, int64_t stride, int64_t n, Load load, T* max, T* sum) {
  const hn::ScalableTag<T> d;
  const auto row = [&](int64_t i) HWY_ATTR { return load(reinterpret_cast<const T*>(x + i * stride)); };
  const auto old = hn::LoadU(d, max + load.at);
  auto m0 = old, m1 = old;
  int64_t i = 0;
  for (; i + 2 <= n; i += 2) {
    m0 = hn::Max(m0, row(i));
    m1 = hn::Max(m1, row(i + 1));
  }
  if (i < n) m0 = hn::Max(m0, row(i));
  const auto m = hn::Max(m0, m1);
  auto more = hn::Zero(d);
  for (i = 0; i < n; ++i) {
    if (next) __builtin_prefetch(reinterpret_cast<const T*>(next + i * stride) + load.at);
    more = hn::Add(more, ExpBelow0(d, hn::Sub(row(i), m)));
  }
  hn::StoreU(m, d, max + load.at);
  hn::StoreU(hn::MulAdd(hn::LoadU(d, sum + load.at), ExpBelow0(d, hn::Sub(old, m)), more), d, sum + load.at);
}

// The largest element and sum exp(x - largest) of columns side by side; max and sum take whole vectors. A column
// without any but -inf: the lowest number and 0. One with an infinity or NaN: a sum of NaN.
constexpr int64_t kRowBlock = 16;  // rows between two adjustments of the running maximum
template <class T>
HWY_NOINLINE void SumExpOfColumns(int64_t rows, int64_t cols, const char* x, int64_t stride, T* max, T* sum) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kWidth = kWidthOf<T>;
  for (int64_t k = 0; k < cols; k += kWidth) {
    hn::StoreU(hn::Set(d, std::numeric_limits<T>::lowest()), d, max + k);
    hn::StoreU(hn::Zero(d), d, sum + k);
  }
  for (int64_t i = 0; i < rows; i += kRowBlock, x += kRowBlock * stride) {
    const char* const next = i + kRowBlock < rows ? x + kRowBlock * stride : nullptr;
    const int64_t n = HWY_MIN(kRowBlock, rows - i);
    int64_t k = 0;
    for (; k + kWidth <= cols; k += kWidth) StepColumns(x, next, stride, n, Whole<T>{k}, max, sum);
    if (k < cols) StepColumns(x, next, stride, n, First<T>{k, cols - k}, max, sum);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
