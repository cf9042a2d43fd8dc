// Transforms of columns that stand side by side, a vector of lanes at a time: butterflies and passes. Included once per
// SIMD target.
#include <algorithm>
#include <type_traits>
#include <utility>

#include "fft/cpu/plan.h"
#include "tensor/cpu/support/scratch.h"

#if defined(TESSERA_FFT_COLUMNS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_FFT_COLUMNS_INL
#undef TESSERA_FFT_COLUMNS_INL
#else
#define TESSERA_FFT_COLUMNS_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// f(0) ... f(n - 1), unrolled where N is known (N = n, or 0).
#define TESSERA_FFT_BODY(i) [&](int i) HWY_ATTR __attribute__((always_inline))
template <int N, class F>
HWY_INLINE void repeat(int n, const F& f) {
  if constexpr (N > 0) [&]<int... I>(std::integer_sequence<int, I...>) HWY_ATTR __attribute__((always_inline)) {
      (f(I), ...);
    }
  (std::make_integer_sequence<int, N>());
  else for (int i = 0; i < n; ++i) f(i);
}

template <class D>
struct Complex {
  hn::Vec<D> re, im;
};

template <class D>
HWY_INLINE Complex<D> add(const Complex<D>& a, const Complex<D>& b) {
  return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)};
}
template <class D>
HWY_INLINE Complex<D> sub(const Complex<D>& a, const Complex<D>& b) {
  return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)};
}
template <class D>
HWY_INLINE Complex<D> mul(const Complex<D>& a, const Complex<D>& w) {
  return {hn::NegMulAdd(a.im, w.im, hn::Mul(a.re, w.re)), hn::MulAdd(a.im, w.re, hn::Mul(a.re, w.im))};
}
// a - i b, a + i b
template <class D>
HWY_INLINE Complex<D> sub_turned(const Complex<D>& a, const Complex<D>& b) {
  return {hn::Add(a.re, b.im), hn::Sub(a.im, b.re)};
}
template <class D>
HWY_INLINE Complex<D> add_turned(const Complex<D>& a, const Complex<D>& b) {
  return {hn::Sub(a.re, b.im), hn::Add(a.im, b.re)};
}

// ---- Butterflies: a becomes its transform, sum_k a[k] exp(-2 pi i j k / R). ----

// Of four numbers, from sums and differences of numbers 0 and 2, and of numbers 1 and 3.
template <class D>
HWY_INLINE void join4(const Complex<D>& even, const Complex<D>& even_rest, const Complex<D>& odd,
                      const Complex<D>& odd_rest, Complex<D>& a0, Complex<D>& a1, Complex<D>& a2, Complex<D>& a3) {
  a0 = add(even, odd);
  a2 = sub(even, odd);
  a1 = sub_turned(even_rest, odd_rest);
  a3 = add_turned(even_rest, odd_rest);
}
template <class D>
HWY_INLINE void butterfly4(Complex<D>& a0, Complex<D>& a1, Complex<D>& a2, Complex<D>& a3) {
  join4(add(a0, a2), sub(a0, a2), add(a1, a3), sub(a1, a3), a0, a1, a2, a3);
}

template <class D>
HWY_INLINE void butterfly8(D d, Complex<D>* a) {
  butterfly4(a[0], a[2], a[4], a[6]);
  butterfly4(a[1], a[3], a[5], a[7]);
  const auto root = hn::Set(d, static_cast<hn::TFromD<D>>(0.70710678118654752440));
  // Odd half times exp(-pi i / 4): root (1 - i), and times its cube: -root (1 + i).
  const Complex<D> first{hn::Add(a[3].re, a[3].im), hn::Sub(a[3].im, a[3].re)};
  const Complex<D> third{hn::Sub(a[7].im, a[7].re), hn::Add(a[7].re, a[7].im)};
  const Complex<D> even[4] = {a[0], a[2], a[4], a[6]}, second = a[5], zeroth = a[1];
  a[0] = add(even[0], zeroth);
  a[4] = sub(even[0], zeroth);
  a[1] = {hn::MulAdd(first.re, root, even[1].re), hn::MulAdd(first.im, root, even[1].im)};
  a[5] = {hn::NegMulAdd(first.re, root, even[1].re), hn::NegMulAdd(first.im, root, even[1].im)};
  a[2] = sub_turned(even[2], second);
  a[6] = add_turned(even[2], second);
  a[3] = {hn::MulAdd(third.re, root, even[3].re), hn::NegMulAdd(third.im, root, even[3].im)};
  a[7] = {hn::NegMulAdd(third.re, root, even[3].re), hn::MulAdd(third.im, root, even[3].im)};
}

// An odd prime: numbers at k and r - k share cosines, and have opposite sines. roots: cos, sin of 2 pi t / r. Takes
// number k from load(k), all of them before the first result; put(j, result). kUnrolled: results are code of their own.
template <int R, bool kUnrolled, class D, class Load, class Put>
HWY_INLINE void butterfly_odd(D d, int radix, const hn::TFromD<D>* HWY_RESTRICT roots, const Load& load,
                              const Put& put) {
  const int r = R ? R : radix, half = (r - 1) / 2;
  Complex<D> sum[(R ? R : kMaxRadix) / 2], rest[(R ? R : kMaxRadix) / 2];
  const Complex<D> first = load(0);
  Complex<D> all = first;
  repeat<R / 2>(
      half, TESSERA_FFT_BODY(k) {
        const Complex<D> a = load(k + 1), b = load(r - 1 - k);
        sum[k] = add(a, b);
        rest[k] = sub(a, b);
        all = add(all, sum[k]);
      });
  put(0, all);
  repeat<kUnrolled ? R / 2 : 0>(
      half, TESSERA_FFT_BODY(i) {
        const int j = i + 1;
        Complex<D> even = first, odd{hn::Zero(d), hn::Zero(d)};
        int t = 0;  // j (k + 1) mod r
        repeat<R / 2>(
            half, TESSERA_FFT_BODY(k) {
              t += j;
              if (t >= r) t -= r;
              const auto c = hn::Set(d, roots[2 * t]), s = hn::Set(d, roots[2 * t + 1]);
              even = {hn::MulAdd(sum[k].re, c, even.re), hn::MulAdd(sum[k].im, c, even.im)};
              odd = {hn::MulAdd(rest[k].re, s, odd.re), hn::MulAdd(rest[k].im, s, odd.im)};
            });
        put(j, sub_turned(even, odd));
        put(r - j, add_turned(even, odd));
      });
}

template <int R, class D>
HWY_INLINE void butterfly(D d, const hn::TFromD<D>* HWY_RESTRICT roots, Complex<D>* a) {
  if constexpr (R == 2) {
    const auto rest = sub(a[0], a[1]);
    a[0] = add(a[0], a[1]);
    a[1] = rest;
  } else if constexpr (R == 4) {
    butterfly4(a[0], a[1], a[2], a[3]);
  } else if constexpr (R == 8) {
    butterfly8(d, a);
  } else {
    static_assert(R == 3 || R == 5 || R == 7);
    Complex<D> result[R];
    butterfly_odd<R, true>(
        d, R, roots, TESSERA_FFT_BODY(k) { return a[k]; },
        [&](int j, const Complex<D>& z) HWY_ATTR __attribute__((always_inline)) { result[j] = z; });
    repeat<R>(
        R, TESSERA_FFT_BODY(j) { a[j] = result[j]; });
  }
}

// Memory that the next group of lines is read from, and this one's results are written to: passes ask for it, some with
// each butterfly, and for no more than kMost lines at a time, which the processor could not keep on their way.
class Ahead {
 public:
  Ahead() = default;
  // `bytes` behind `in` and `out` (null: nothing) while `butterflies` are made.
  Ahead(const void* in, const void* out, int64_t bytes, int64_t butterflies)
      : in_(static_cast<const char*>(in)),
        out_(static_cast<const char*>(out)),
        left_((bytes + kLine - 1) / kLine),
        step_(std::min<int64_t>(kMost, (left_ + butterflies - 1) / std::max<int64_t>(1, butterflies))) {}

  HWY_INLINE void butterfly() {
    if (left_ <= 0) return;
    for (int64_t i = 0; i < step_; ++i, in_ += kLine, out_ += kLine) {
      __builtin_prefetch(in_, 0, 2);
      __builtin_prefetch(out_, 1, 2);
    }
    left_ -= step_;
  }

 private:
  static constexpr int64_t kLine = 64, kMost = 4;
  const char *in_ = nullptr, *out_ = nullptr;
  int64_t left_ = 0, step_ = 0;
};

// ---- Where a pass reads and writes: row i of a vector of columns. ----

// Real parts in a row, which as many imaginary ones follow. Where a group of columns is two vectors, these stand one
// behind the other, each with all its rows, so that the first cache holds those of longer columns.
template <class D>
inline constexpr int64_t kPlanarWidth = HWY_TARGET == HWY_AVX2 ? hn::MaxLanes(D()) : kFftWidth<hn::TFromD<D>>;
// Where lane l of a group with `rows` rows begins.
template <class T>
constexpr int64_t lane_begin(int64_t l, int64_t rows) {
  constexpr int64_t kWidth = kPlanarWidth<hn::ScalableTag<T>>;
  return l / kWidth * kWidth * 2 * rows + l % kWidth;
}
// Bytes of rows that the first cache holds with what passes need besides.
inline constexpr int64_t kFirstCache = int64_t{32} << 10;
// Rows of a vector's columns.
template <class D>
struct Planar {
  using T = hn::TFromD<D>;
  static constexpr int64_t kWidth = kPlanarWidth<D>, kRow = 2 * kWidth;
  D d;
  T* at;
  Ahead* ahead = nullptr;
  HWY_INLINE Complex<D> load(int64_t i) const {
    return {hn::LoadU(d, at + i * kRow), hn::LoadU(d, at + i * kRow + kWidth)};
  }
  HWY_INLINE void store(int64_t i, const Complex<D>& z) const {
    hn::StoreU(z.re, d, at + i * kRow);
    hn::StoreU(z.im, d, at + i * kRow + kWidth);
  }
};

// Complex numbers as everybody keeps them, as many as a vector has lanes, in an order that numbers() has, too;
// kMirrored: the last one where the first one would be.
template <class D, bool kMirrored = false>
struct Pairs {
  D d;
  HWY_INLINE Complex<D> load(const hn::TFromD<D>* at) const {
    Complex<D> z;
    hn::LoadInterleaved2(d, at, z.re, z.im);
    return turned(z);
  }
  HWY_INLINE void store(const Complex<D>& z, hn::TFromD<D>* at) const {
    const Complex<D> t = turned(z);
    hn::StoreInterleaved2(t.re, t.im, d, at);
  }
  HWY_INLINE hn::Vec<D> numbers(const hn::TFromD<D>* at) const { return hn::LoadU(d, at); }

 private:
  HWY_INLINE Complex<D> turned(const Complex<D>& z) const {
    if constexpr (kMirrored) return {hn::Reverse(d, z.re), hn::Reverse(d, z.im)};
    return z;
  }
};
#if HWY_TARGET == HWY_AVX3
// Lane i: that of the lanes of a, then b, which lanes[i] says.
template <class D>
using Choice = hn::Vec<hn::RebindToSigned<D>>;
template <class D>
HWY_INLINE hn::Vec<D> choose(D, hn::Vec<D> a, hn::Vec<D> b, Choice<D> lanes) {
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    return {_mm512_permutex2var_ps(a.raw, lanes.raw, b.raw)};
  else
    return {_mm512_permutex2var_pd(a.raw, lanes.raw, b.raw)};
}
// One such instruction turns numbers into parts, and back, in any order: with real and imaginary parts exchanged, too.
template <class T, bool kMirrored>
struct Pairs<hn::Simd<T, 64 / sizeof(T), 0>, kMirrored> {
  using D = hn::Simd<T, 64 / sizeof(T), 0>;
  D d;
  Choice<D> real, imaginary, lower, upper;
  explicit Pairs(D d, bool exchanged = false) : d(d) {
    const hn::RebindToSigned<D> n;
    const auto other = hn::Set(n, static_cast<Number>(exchanged)), part = hn::ShiftLeft<kLog>(other);
    real = hn::Xor(hn::Load(n, kPlaces.real), other);
    imaginary = hn::Xor(real, hn::Set(n, 1));
    lower = hn::Xor(hn::Load(n, kPlaces.lower), part);
    upper = hn::Xor(hn::Load(n, kPlaces.upper), part);
  }
  HWY_INLINE Complex<D> load(const T* at) const { return load(at, at + kLanes); }
  HWY_INLINE Complex<D> load(const T* first, const T* second) const {
    const auto a = hn::LoadU(d, first), b = hn::LoadU(d, second);
    return {choose(d, a, b, real), choose(d, a, b, imaginary)};
  }
  HWY_INLINE hn::Vec<D> numbers(const T* at) const { return hn::LoadU(d, at); }
  HWY_INLINE void store(const Complex<D>& z, T* at) const {
    const auto first = choose(d, z.re, z.im, lower), second = choose(d, z.re, z.im, upper);
    hn::StoreU(first, d, at);
    // In this order: downwards, stores that are parts of two lines each cost more.
    struct Bytes {
      char b[64];
    };
    asm volatile("" : "=m"(*reinterpret_cast<Bytes*>(at + kLanes)) : "m"(*reinterpret_cast<Bytes*>(at)));
    hn::StoreU(second, d, at + kLanes);
  }

 private:
  static constexpr int kLanes = 64 / sizeof(T), kLog = kLanes == 8 ? 3 : 4;
  using Number = hn::TFromD<hn::RebindToSigned<D>>;
  struct Places {
    alignas(64) Number real[kLanes], lower[kLanes], upper[kLanes];
  };
  static constexpr Places make_places() {
    Places p{};
    for (int i = 0; i < kLanes; ++i) {
      const auto lane = [](int of) { return kMirrored ? kLanes - 1 - of : of; };
      p.real[i] = 2 * lane(i);
      p.lower[i] = lane(i / 2) + i % 2 * kLanes;
      p.upper[i] = lane((i + kLanes) / 2) + i % 2 * kLanes;
    }
    return p;
  }
  static constexpr Places kPlaces = make_places();
};
#elif HWY_TARGET == HWY_AVX2
// Within each of two blocks of 16 bytes alone: in lane_order.
template <class T, bool kMirrored>
struct Pairs<hn::Simd<T, 32 / sizeof(T), 0>, kMirrored> {
  using D = hn::Simd<T, 32 / sizeof(T), 0>;
  using V = hn::Vec<D>;
  D d;
  HWY_INLINE Complex<D> load(const T* at) const {
    const V a = block_pair(at), b = block_pair(at + kLanes);
    return kMirrored ? parts(b, a) : parts(a, b);
  }
  HWY_INLINE void store(const Complex<D>& z, T* at) const {
    const V a = hn::InterleaveLower(d, z.re, z.im), b = hn::InterleaveUpper(d, z.re, z.im);
    hn::StoreU(kMirrored ? turned(b) : a, d, at);
    hn::StoreU(kMirrored ? turned(a) : b, d, at + kLanes);
  }
  HWY_INLINE V numbers(const T* at) const {
    return hn::BitCast(d, hn::Vec<Doubles>{_mm256_permute4x64_pd(hn::BitCast(Doubles(), hn::LoadU(d, at)).raw, 0xd8)});
  }

 private:
  using Doubles = hn::Repartition<double, D>;
  static constexpr int64_t kLanes = 32 / sizeof(T);
  HWY_INLINE V block_pair(const T* at) const {
    if (!kMirrored) return hn::LoadU(d, at);
    const hn::Half<D> h;
    return hn::Combine(d, hn::LoadU(h, at), hn::LoadU(h, at + kLanes / 2));
  }
  HWY_INLINE Complex<D> parts(V a, V b) const {
    if constexpr (sizeof(T) == 8)
      return {hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)};
    else if constexpr (kMirrored)
      return {{_mm256_shuffle_ps(a.raw, b.raw, 0x22)}, {_mm256_shuffle_ps(a.raw, b.raw, 0x77)}};
    else
      return {{_mm256_shuffle_ps(a.raw, b.raw, 0x88)}, {_mm256_shuffle_ps(a.raw, b.raw, 0xdd)}};
  }
  // The last complex number first.
  HWY_INLINE V turned(V v) const {
    constexpr int kTurned = sizeof(T) == 8 ? 0x4e : 0x1b;
    return hn::BitCast(d, hn::Vec<Doubles>{_mm256_permute4x64_pd(hn::BitCast(Doubles(), v).raw, kTurned)});
  }
};
#endif

// Which of neighbours is in lane i of what Interleaved reads and writes: where a vector is two blocks of 16 bytes,
// instructions that never cross from one to the other turn numbers into parts, and back, in this order.
template <class T>
constexpr int lane_order(int i) {
  constexpr int kHigh = 16 / sizeof(T), kLow = kHigh / 2;
  if (HWY_TARGET != HWY_AVX2) return i;
  return i - (i & (kHigh + kLow)) + (i & kHigh) / 2 + (i & kLow) * 2;
}

// Rows of them, `stride` parts apart. A transform with the other sign is this one between two exchanges of real and
// imaginary parts, where those cost nothing; elsewhere between two conjugations: `sign` of imaginary parts that are
// read is -0.0 then, and scale_im negative.
template <class D>
struct Interleaved {
  using T = hn::TFromD<D>;
  D d;
  T* at;
  int64_t stride;
  hn::Vec<D> scale;
#if HWY_TARGET == HWY_AVX3
  Pairs<D> pairs;
  Interleaved(D d, const T* at, int64_t stride, bool backwards, T scale)
      : d(d), at(const_cast<T*>(at)), stride(stride), scale(hn::Set(d, scale)), pairs(d, backwards) {}
  HWY_INLINE Complex<D> load(int64_t i) const { return pairs.load(at + i * stride); }
  HWY_INLINE void store(int64_t i, const Complex<D>& z) const {
    pairs.store({hn::Mul(z.re, scale), hn::Mul(z.im, scale)}, at + i * stride);
  }
#else
  hn::Vec<D> sign, scale_im;
  Interleaved(D d, const T* at, int64_t stride, bool backwards, T scale)
      : d(d),
        at(const_cast<T*>(at)),
        stride(stride),
        scale(hn::Set(d, scale)),
        sign(hn::Set(d, backwards ? -T{0} : T{0})),
        scale_im(hn::Xor(sign, this->scale)) {}
  HWY_INLINE Complex<D> load(int64_t i) const {
    const Complex<D> z = Pairs<D>{d}.load(at + i * stride);
    return {z.re, hn::Xor(z.im, sign)};
  }
  HWY_INLINE void store(int64_t i, const Complex<D>& z) const {
    store_as_is(i, {hn::Mul(z.re, scale), hn::Mul(z.im, scale_im)});
  }
  HWY_INLINE void store_as_is(int64_t i, const Complex<D>& z) const { Pairs<D>{d}.store(z, at + i * stride); }
#endif
};

// Planar, times a twiddle factor of its own for each number, of a table of planar rows, too: see LinePlan.
template <class D>
struct Twiddled {
  D d;
  hn::TFromD<D>* to;
  const hn::TFromD<D>* fine;
  int64_t width;  // of both
  int64_t rows;   // of the table: row i has factor i & rows
  HWY_INLINE void store(int64_t i, const Complex<D>& given) const {
    const auto* factor = fine + (i & rows) * 2 * width;
    const auto z = mul(given, Complex<D>{hn::LoadU(d, factor), hn::LoadU(d, factor + width)});
    auto* const at = to + i * 2 * width;
    hn::StoreU(z.re, d, at);
    hn::StoreU(z.im, d, at + width);
  }
};

// ---- Passes ----

// See ColumnPlan::Pass. kLast: m is 1, and results are written where they belong.
template <int R, bool kLast, class D, class From, class To, class T = hn::TFromD<D>>
HWY_NOINLINE void pass(D d, const ColumnPlan<T>& plan, const ColumnPasses::Pass& pass, const From& given,
                       const To& wanted) {
  const From from = given;  // copies of their own: vectors may alias what references lead to
  const To to = wanted;
  const int r = R ? R : pass.radix;
  const int64_t m = kLast ? 1 : pass.m, s = pass.s;
  const T* HWY_RESTRICT const twiddles = plan.numbers.data() + pass.twiddles;
  const T* HWY_RESTRICT const roots = plan.numbers.data() + pass.roots;
  const int32_t* HWY_RESTRICT const first = plan.first.data();
  for (int64_t b = pass.begin; b < s; ++b) {
    const T* w = twiddles;
    for (int64_t p = 0; p < m; ++p, w += 2 * (r - 1)) {
      const int64_t row = b * r * m + p, out = kLast ? first[b] : row, step = kLast ? pass.step : m;
      if constexpr (std::is_same_v<From, Planar<D>>)
        if (from.ahead) from.ahead->butterfly();
      const auto load = TESSERA_FFT_BODY(k) { return from.load(row + m * k); };
      const auto put = [&](int j, Complex<D> z) HWY_ATTR __attribute__((always_inline)) {
        if (!kLast && p > 0 && j > 0) z = mul(z, Complex<D>{hn::Set(d, w[2 * j - 2]), hn::Set(d, w[2 * j - 1])});
        to.store(out + step * j, z);
      };
      if constexpr (R == 0 || R == 7 || R == 11 || R == 13) {
        butterfly_odd<R, false>(d, r, roots, load, put);
      } else {
        Complex<D> a[R];
        repeat<R>(
            r, TESSERA_FFT_BODY(k) { a[k] = load(k); });
        butterfly<R>(d, roots, a);
        repeat<R>(
            r, TESSERA_FFT_BODY(j) { put(j, a[j]); });
      }
    }
  }
}

// Radices whose passes are short; where there is room for their code, they read and write memory of any form. There are
// no such passes of the others, whose code is long and whose arithmetic outweighs the copy that they take instead.
inline bool is_brief(int radix) { return radix <= 5 || radix == 8; }
inline constexpr bool kForms = HWY_TARGET != HWY_SSE4;
inline constexpr int kEight = HWY_TARGET == HWY_AVX3 ? 8 : 4;  // plans have no eights there

template <bool kLast, class D, class From, class To, class T = hn::TFromD<D>>
void brief_pass(D d, const ColumnPlan<T>& plan, const ColumnPasses::Pass& p, const From& from, const To& to) {
  switch (p.radix) {
    case 2:
      return pass<2, kLast>(d, plan, p, from, to);
    case 3:
      return pass<3, kLast>(d, plan, p, from, to);
    case 4:
      return pass<4, kLast>(d, plan, p, from, to);
    case 5:
      return pass<5, kLast>(d, plan, p, from, to);
    default:
      return pass<kEight, kLast>(d, plan, p, from, to);
  }
}
template <class D, class T = hn::TFromD<D>>
void planar_pass(D d, const ColumnPlan<T>& plan, const ColumnPasses::Pass& p, const Planar<D>& from,
                 const Planar<D>& to) {
  if (is_brief(p.radix)) return brief_pass<false>(d, plan, p, from, to);
  switch (p.radix) {
// Where registers hold their numbers; else the general form is as good.
#if HWY_TARGET != HWY_SSE4
    case 7:
      return pass<7, false>(d, plan, p, from, to);
#endif
#if HWY_TARGET == HWY_AVX3
    case 11:
      return pass<11, false>(d, plan, p, from, to);
    case 13:
      return pass<13, false>(d, plan, p, from, to);
#endif
    default:
      return pass<0, false>(d, plan, p, from, to);
  }
}

// f(pass, whether it is the last one): see ColumnPasses::walk.
template <class D, class F>
HWY_INLINE void for_passes(D, const ColumnPasses& plan, int64_t at, const F& f) {
  constexpr int64_t kMost = kFirstCache / static_cast<int64_t>(sizeof(hn::TFromD<D>)) / Planar<D>::kRow;
  plan.walk(
      at, kMost, [](const void* f, const ColumnPasses::Pass& p, bool last) { (*static_cast<const F*>(f))(p, last); },
      &f);
}

// Transforms one vector of columns, number k in row plan.in_line[k]; result k is then in row plan.order[k].
template <class D, class T = hn::TFromD<D>>
void transform_rows(D d, const ColumnPlan<T>& plan, const Planar<D>& rows) {
  if (!plan.inner)
    return for_passes(d, plan, 0, [&](const auto& p, bool) HWY_ATTR { planar_pass(d, plan, p, rows, rows); });
  // See Line::convolve, convolve_powers. The transform with the other sign is this one in another order.
  const ColumnPlan<T>& inner = *plan.inner;
  const bool chirps = !plan.chirp.empty();
  const auto times = [&](const Planar<D>& from, int64_t i, const Table<T>& table, int64_t k) HWY_ATTR {
    return mul(from.load(i), Complex<D>{hn::Set(d, table[2 * k]), hn::Set(d, table[2 * k + 1])});
  };
  const Planar<D> results{d, rows.at + plan.results * Planar<D>::kRow, rows.ahead};
  const Planar<D> second{d, results.at + (chirps ? 0 : Planar<D>::kRow), rows.ahead};
  if (chirps) {
    for (int64_t k = 0; k < plan.n; ++k) rows.store(k, times(rows, k, plan.chirp, k));
    for (int64_t k = plan.n; k < inner.n; ++k) rows.store(k, {hn::Zero(d), hn::Zero(d)});
  }
  transform_rows(d, inner, rows);
  for (int64_t k = 0; k < inner.n; ++k) second.store(k, times(rows, inner.order[k], plan.filter, k));
  if (!chirps) {
    const Complex<D> first = results.load(0);
    results.store(0, add(first, rows.load(0)));
    second.store(0, add(first, second.load(0)));
  }
  transform_rows(d, inner, second);
  if (chirps)
    for (int64_t k = 0; k < plan.n; ++k) {
      const int64_t row = plan.order[k] - plan.results;
      results.store(row, times(results, row, plan.chirp, k));
    }
}

// Transforms one vector of columns. scratch: plan.height rows; from may be there, if it is planar.
template <class D, class From, class To, class T = hn::TFromD<D>>
void transform_columns(D d, const ColumnPlan<T>& plan, const From& from, const To& to, T* scratch) {
  const Planar<D> rows{d, scratch};
  if constexpr (std::is_same_v<From, Interleaved<D>> && std::is_same_v<To, Interleaved<D>>)
    if (plan.inner) {
      for (int64_t row = 0; row < plan.n; ++row) rows.store(plan.in_line[row], from.load(row));
      transform_rows(d, plan, rows);
      for (int64_t row = 0; row < plan.n; ++row) to.store(row, rows.load(plan.order[row]));
      return;
    }
  const auto count = static_cast<int64_t>(plan.passes.size());
  int64_t i = 0;
  if constexpr (std::is_same_v<From, Interleaved<D>>) {
    if (kForms && count > 0 && is_brief(plan.passes[0].radix))
      brief_pass<false>(d, plan, plan.passes[i++], from, rows);
    else
      for (int64_t row = 0; row < plan.n; ++row) rows.store(row, from.load(row));
  }
  // The last pass writes the result; so does a copy where that is the first one, or has no such form.
  const bool copies = !kForms || i == count || !is_brief(plan.passes[count - 1].radix);
  for_passes(d, plan, i, [&](const auto& p, bool last) HWY_ATTR {
    if (last && !copies)
      brief_pass<true>(d, plan, p, rows, to);
    else
      planar_pass(d, plan, p, rows, rows);
  });
  if (!copies) return;
  for (int64_t row = 0; row < plan.n; ++row) to.store(row, rows.load(plan.order[row]));
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();
#endif
