// The shared part of the reduction kernels in Highway: how blocks, rows and columns are reduced, for any operation. Included once per target.
//
// A block of up to kBlock elements is reduced in a fixed number of logical lanes whatever the vector width, folded by halves; blocks are combined pairwise
// in the accumulator's type. So results are the same on every machine and their error does not grow with the number of elements.
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tensor/cpu/reduce_kernels.h"

#if defined(TESSERA_CPU_REDUCE_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_REDUCE_SIMD_INL_H_
#undef TESSERA_CPU_REDUCE_SIMD_INL_H_
#else
#define TESSERA_CPU_REDUCE_SIMD_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kBlock = 2048;     // elements of a row between two steps of the pairwise stack
constexpr int64_t kColBlock = 32;    // rows summed in lanes before they reach the accumulators
constexpr int64_t kColChunk = 256;   // columns at a time: their lanes stay in L1

// Loads elements of type T as vectors of Lane (the same type, or float to double).
template <class D, class T>
HWY_INLINE hn::Vec<D> LoadAs(D d, const T* p) {
  if constexpr (sizeof(T) == sizeof(hn::TFromD<D>)) {
    return hn::LoadU(d, p);
  } else {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, D>(), p));
  }
}

// The operations: Step takes one more element into a lane, Merge joins two lanes.
template <class T_, class Lane_, class Acc_>
struct AddOp {
  using T = T_; using Lane = Lane_; using Acc = Acc_;
  static constexpr bool kExtreme = false;
  static Lane Identity() { return 0; }
  static Acc Zero() { return 0; }
  static Lane Map(Lane x) { return x; }
  static Lane Step(Lane a, Lane x) { return a + x; }
  static Lane Merge(Lane a, Lane b) { return a + b; }
  static Acc MergeAcc(Acc a, Acc b) { return a + b; }
  template <class D, class V> static HWY_INLINE V VStep(D, V a, V x) { return hn::Add(a, x); }
  template <class D, class V> static HWY_INLINE V VMerge(D, V a, V b) { return hn::Add(a, b); }
};
template <class T, class Lane>
struct NanSumOp : AddOp<T, Lane, double> {
  static Lane Step(Lane a, Lane x) { return x != x ? a : a + x; }
  template <class D, class V> static HWY_INLINE V VStep(D, V a, V x) { return hn::Add(a, hn::IfThenZeroElse(hn::IsNaN(x), x)); }
};
template <class T>
struct AbsSumOp : AddOp<T, double, double> {
  static double Step(double a, double x) { return a + std::fabs(x); }
  template <class D, class V> static HWY_INLINE V VStep(D, V a, V x) { return hn::Add(a, hn::Abs(x)); }
};
template <class T>
struct SumSquaresOp : AddOp<T, double, double> {
  static double Step(double a, double x) { return a + x * x; }
  template <class D, class V> static HWY_INLINE V VStep(D, V a, V x) { return hn::Add(a, hn::Mul(x, x)); }
};
template <class T>
struct ProdOp {
  using Lane = double; using Acc = double;
  static constexpr bool kExtreme = false;
  static double Identity() { return 1; }
  static double Zero() { return 1; }
  static double Step(double a, double x) { return a * x; }
  static double Merge(double a, double b) { return a * b; }
  static double MergeAcc(double a, double b) { return a * b; }
  template <class D, class V> static HWY_INLINE V VStep(D, V a, V x) { return hn::Mul(a, x); }
  template <class D, class V> static HWY_INLINE V VMerge(D, V a, V b) { return hn::Mul(a, b); }
};
// Extrema keep a NaN once they have one: `better` is false for a NaN already held, and a NaN that arrives compares as "not worse".
template <class T_, bool kLargest, bool kAbs>
struct ExtremeOp {
  using T = T_; using Lane = T_; using Acc = T_;
  static Lane Identity() {
    if constexpr (std::numeric_limits<T>::has_infinity) {
      return kLargest ? (kAbs ? T{0} : -std::numeric_limits<T>::infinity()) : std::numeric_limits<T>::infinity();
    } else {
      return kLargest ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
    }
  }
  static constexpr bool kExtreme = true;
  static Acc Zero() { return Identity(); }
  static Lane Merge(Lane a, Lane x) {
    const bool keep = kLargest ? a >= x : a <= x;
    return keep || a != a ? a : x;
  }
  static Lane Step(Lane a, Lane x) {
    if constexpr (kAbs) x = x < 0 ? -x : x;
    return Merge(a, x);
  }
  static Acc MergeAcc(Acc a, Acc b) { return Merge(a, b); }
  template <class D, class V> static HWY_INLINE V VMerge(D, V a, V x) {
    if constexpr (std::is_floating_point_v<T>) {
      const auto keep = kLargest ? hn::Ge(a, x) : hn::Le(a, x);
      return hn::IfThenElse(hn::Or(keep, hn::IsNaN(a)), a, x);
    } else {
      return kLargest ? hn::Max(a, x) : hn::Min(a, x);
    }
  }
  template <class D, class V> static HWY_INLINE V Mapped(D, V x) {
    if constexpr (kAbs) {
      return hn::Abs(x);
    } else {
      return x;
    }
  }
  template <class D, class V> static HWY_INLINE V Plain(D, V a, V x) { return kLargest ? hn::Max(a, x) : hn::Min(a, x); }
  template <class D, class V> static HWY_INLINE V VStep(D d, V a, V x) { return VMerge(d, a, Mapped(d, x)); }
};

// N vectors as a tree of members: unlike an array, the compiler keeps them in registers.
template <class V, int N>
struct Pack { Pack<V, N / 2> a, b; };
template <class V>
struct Pack<V, 1> { V v; };

template <int N, class D, class V>
HWY_INLINE void Fill(D d, Pack<V, N>& p, V value) {
  if constexpr (N == 1) {
    p.v = value;
  } else {
    Fill(d, p.a, value);
    Fill(d, p.b, value);
  }
}
// Step of N vectors of consecutive elements.
template <class Op, int N, class D, class V, class T>
HWY_INLINE void StepPack(D d, Pack<V, N>& p, const T* x) {
  if constexpr (N == 1) {
    p.v = Op::VStep(d, p.v, LoadAs(d, x));
  } else {
    StepPack<Op>(d, p.a, x);
    StepPack<Op>(d, p.b, x + N / 2 * HWY_LANES(hn::TFromD<D>));
  }
}
// Folds by halves: lane i meets lane i + half.
template <class Op, int N, class D, class V>
HWY_INLINE Pack<V, N> MergePacks(D d, const Pack<V, N>& a, const Pack<V, N>& b) {
  if constexpr (N == 1) {
    return {Op::VMerge(d, a.v, b.v)};
  } else {
    return {MergePacks<Op>(d, a.a, b.a), MergePacks<Op>(d, a.b, b.b)};
  }
}
template <class Op, int N, class D, class V>
HWY_INLINE V MergePack(D d, const Pack<V, N>& p) {
  if constexpr (N == 1) {
    return p.v;
  } else {
    return MergePack<Op>(d, MergePacks<Op>(d, p.a, p.b));
  }
}
// Folds the lanes of a vector by halves down to kFold.
template <class Op, int kFold, class D, class V>
HWY_INLINE void FoldLanes(D d, V v, typename Op::Lane* out) {
  using Lane = typename Op::Lane;
  constexpr int64_t kWidth = HWY_LANES(Lane);
  if constexpr (sizeof(Lane) * hn::MaxLanes(d) > 16) {
    const hn::Half<D> half;
    FoldLanes<Op, kFold>(half, Op::VMerge(half, hn::LowerHalf(half, v), hn::UpperHalf(half, v)), out);
  } else {
    HWY_ALIGN Lane lanes[kWidth];
    hn::Store(v, d, lanes);
    for (int64_t m = 16 / sizeof(Lane) / 2; m >= kFold; m /= 2) {
      for (int64_t j = 0; j < m; ++j) lanes[j] = Op::Merge(lanes[j], lanes[j + m]);
    }
    for (int j = 0; j < kFold; ++j) out[j] = lanes[j];
  }
}

// Short rows: four lanes in plain code.
template <class Op, class T, int kFold>
HWY_INLINE void ReduceShort(int64_t n, const T* HWY_RESTRICT x, typename Op::Lane* out) {
  using Lane = typename Op::Lane;
  Lane s0 = Op::Identity(), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    s0 = Op::Step(s0, static_cast<Lane>(x[i]));
    s1 = Op::Step(s1, static_cast<Lane>(x[i + 1]));
    s2 = Op::Step(s2, static_cast<Lane>(x[i + 2]));
    s3 = Op::Step(s3, static_cast<Lane>(x[i + 3]));
  }
  if (i < n) s0 = Op::Step(s0, static_cast<Lane>(x[i]));
  if (i + 1 < n) s1 = Op::Step(s1, static_cast<Lane>(x[i + 1]));
  if (i + 2 < n) s2 = Op::Step(s2, static_cast<Lane>(x[i + 2]));
  if constexpr (kFold == 1) {
    out[0] = Op::Merge(Op::Merge(s0, s2), Op::Merge(s1, s3));
  } else {
    out[0] = Op::Merge(s0, s2);
    out[1] = Op::Merge(s1, s3);
  }
}

// One block of at most kBlock elements. kFold is 2 for interleaved complex numbers: then the two halves of the answer stand in out[0] and out[1].
template <class Op, class T, int kFold>
HWY_NOINLINE void ReduceLong(int64_t n, const T* HWY_RESTRICT x, typename Op::Lane* out) {
  using Lane = typename Op::Lane;
  const hn::ScalableTag<Lane> d;
  constexpr int64_t kLanes = 256 / sizeof(Lane);
  constexpr int64_t kWidth = HWY_LANES(Lane);
  using V = hn::Vec<decltype(d)>;
  Pack<V, kLanes / kWidth> v;
  Fill(d, v, hn::Set(d, Op::Identity()));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) StepPack<Op>(d, v, x + i);
  if (i < n) {
    // What pads the last vectors must change nothing: the identity of Step.
    HWY_ALIGN T tail[kLanes < HWY_LANES(T) ? HWY_LANES(T) : kLanes];
    const hn::ScalableTag<T> dt;
    for (int64_t j = 0; j < kLanes; j += HWY_LANES(T)) hn::Store(hn::Set(dt, static_cast<T>(Op::Identity())), dt, tail + j);
    std::memcpy(tail, x + i, (n - i) * sizeof(T));
    StepPack<Op>(d, v, tail);
  }
  FoldLanes<Op, kFold>(d, MergePack<Op>(d, v), out);
}

// Extrema of floats: the vector loop takes plain maxima, which lose a NaN, and watches for NaN aside.
template <class Op, class T>
HWY_NOINLINE void ReduceLongExtreme(int64_t n, const T* HWY_RESTRICT x, T* out) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kWidth = HWY_LANES(T);
  const auto identity = hn::Set(d, Op::Identity());
  auto m0 = identity, m1 = identity, m2 = identity, m3 = identity;
  auto nan0 = hn::IsNaN(identity), nan1 = nan0;
  auto step = [&](const T* p) HWY_ATTR {
    const auto a = Op::Mapped(d, hn::LoadU(d, p)), b = Op::Mapped(d, hn::LoadU(d, p + kWidth));
    const auto c = Op::Mapped(d, hn::LoadU(d, p + 2 * kWidth)), e = Op::Mapped(d, hn::LoadU(d, p + 3 * kWidth));
    m0 = Op::Plain(d, m0, a);
    m1 = Op::Plain(d, m1, b);
    m2 = Op::Plain(d, m2, c);
    m3 = Op::Plain(d, m3, e);
    nan0 = hn::Or(nan0, hn::Or(hn::IsNaN(a), hn::IsNaN(b)));
    nan1 = hn::Or(nan1, hn::Or(hn::IsNaN(c), hn::IsNaN(e)));
  };
  int64_t i = 0;
  for (; i + 4 * kWidth <= n; i += 4 * kWidth) step(x + i);
  if (i < n) {
    HWY_ALIGN T tail[4 * kWidth];
    for (int64_t j = 0; j < 4 * kWidth; j += kWidth) hn::Store(identity, d, tail + j);
    std::memcpy(tail, x + i, (n - i) * sizeof(T));
    step(tail);
  }
  if (!hn::AllFalse(d, hn::Or(nan0, nan1))) {
    *out = std::numeric_limits<T>::quiet_NaN();
    return;
  }
  FoldLanes<Op, 1>(d, Op::Plain(d, Op::Plain(d, m0, m1), Op::Plain(d, m2, m3)), out);
}

template <class Op, class T, int kFold>
HWY_INLINE void ReduceBlock(int64_t n, const T* HWY_RESTRICT x, typename Op::Lane* out) {
  if (n < 32) {
    ReduceShort<Op, T, kFold>(n, x, out);
  } else if constexpr (Op::kExtreme && std::is_floating_point_v<T>) {
    ReduceLongExtreme<Op>(n, x, out);
  } else {
    ReduceLong<Op, T, kFold>(n, x, out);
  }
}

template <class A> struct Pair { A v[2]; };

template <class Op, class T, int kFold>
void Rows(int64_t rows, int64_t n, const void* x, int64_t row_stride, void* acc) {
  using Acc = typename Op::Acc;
  using Lane = typename Op::Lane;
  n *= kFold;
  Acc* out = static_cast<Acc*>(acc);
  auto merge = [](const Pair<Acc>& a, const Pair<Acc>& b) {
    Pair<Acc> r = a;
    for (int j = 0; j < kFold; ++j) r.v[j] = Op::MergeAcc(a.v[j], b.v[j]);
    return r;
  };
  for (int64_t r = 0; r < rows; ++r) {
    const T* p = reinterpret_cast<const T*>(static_cast<const char*>(x) + r * row_stride);
    Lane part[2];
    if (n <= kBlock) {
      ReduceBlock<Op, T, kFold>(n, p, part);
      for (int j = 0; j < kFold; ++j) out[r * kFold + j] = static_cast<Acc>(part[j]);
      continue;
    }
    PairwiseStack<Pair<Acc>, decltype(merge)> stack(merge);
    for (int64_t i = 0; i < n; i += kBlock) {
      ReduceBlock<Op, T, kFold>(HWY_MIN(kBlock, n - i), p + i, part);
      Pair<Acc> a{};
      for (int j = 0; j < kFold; ++j) a.v[j] = static_cast<Acc>(part[j]);
      stack.push(a);
    }
    const Pair<Acc> total = stack.total();
    for (int j = 0; j < kFold; ++j) out[r * kFold + j] = total.v[j];
  }
}

// lanes[c] = Step(... Step(lanes[c], x[0][c]) ..., x[rows - 1][c])
template <class Op, class T>
HWY_INLINE void StepRows(int64_t rows, int64_t cols, const char* x, int64_t stride, typename Op::Lane* HWY_RESTRICT lanes) {
  using Lane = typename Op::Lane;
  const hn::ScalableTag<Lane> d;
  constexpr int64_t kWidth = HWY_LANES(Lane);
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const T* p0 = reinterpret_cast<const T*>(x + r * stride);
    const T* p1 = reinterpret_cast<const T*>(x + (r + 1) * stride);
    const T* p2 = reinterpret_cast<const T*>(x + (r + 2) * stride);
    const T* p3 = reinterpret_cast<const T*>(x + (r + 3) * stride);
    int64_t c = 0;
    for (; c + kWidth <= cols; c += kWidth) {
      auto v = hn::LoadU(d, lanes + c);
      v = Op::VStep(d, v, LoadAs(d, p0 + c));
      v = Op::VStep(d, v, LoadAs(d, p1 + c));
      v = Op::VStep(d, v, LoadAs(d, p2 + c));
      v = Op::VStep(d, v, LoadAs(d, p3 + c));
      hn::StoreU(v, d, lanes + c);
    }
    for (; c < cols; ++c) {
      Lane v = Op::Step(lanes[c], static_cast<Lane>(p0[c]));
      v = Op::Step(v, static_cast<Lane>(p1[c]));
      v = Op::Step(v, static_cast<Lane>(p2[c]));
      lanes[c] = Op::Step(v, static_cast<Lane>(p3[c]));
    }
  }
  for (; r < rows; ++r) {
    const T* p = reinterpret_cast<const T*>(x + r * stride);
    for (int64_t c = 0; c < cols; ++c) lanes[c] = Op::Step(lanes[c], static_cast<Lane>(p[c]));
  }
}

template <class Op, class T, int kFold>
void Cols(int64_t rows, int64_t cols, const void* x, int64_t stride, void* acc) {
  using Acc = typename Op::Acc;
  using Lane = typename Op::Lane;
  cols *= kFold;
  HWY_ALIGN Lane lanes[kColChunk];
  for (int64_t r = 0; r < rows; r += kColBlock) {
    for (int64_t c = 0; c < cols; c += kColChunk) {
      const int64_t m = HWY_MIN(kColChunk, cols - c);
      for (int64_t j = 0; j < m; ++j) lanes[j] = Op::Identity();
      StepRows<Op, T>(HWY_MIN(kColBlock, rows - r), m, static_cast<const char*>(x) + r * stride + c * static_cast<int64_t>(sizeof(T)), stride, lanes);
      Acc* a = static_cast<Acc*>(acc) + c;
      for (int64_t j = 0; j < m; ++j) a[j] = Op::MergeAcc(a[j], static_cast<Acc>(lanes[j]));
    }
  }
}

template <class Op>
void Init(int64_t n, void* acc) {
  for (int64_t i = 0; i < n; ++i) static_cast<typename Op::Acc*>(acc)[i] = Op::Zero();
}
template <class Op>
void Merge(int64_t n, void* acc, const void* more) {
  using Acc = typename Op::Acc;
  for (int64_t i = 0; i < n; ++i) static_cast<Acc*>(acc)[i] = Op::MergeAcc(static_cast<Acc*>(acc)[i], static_cast<const Acc*>(more)[i]);
}
template <class Op> void Init2(int64_t n, void* acc) { Init<Op>(2 * n, acc); }
template <class Op> void Merge2(int64_t n, void* acc, const void* more) { Merge<Op>(2 * n, acc, more); }

template <class Op, class T, DType kType>
constexpr ReduceKernel kReal = {kType, sizeof(typename Op::Acc), Rows<Op, T, 1>, Cols<Op, T, 1>, Init<Op>, Merge<Op>};
template <class Op, class T, DType kType>
constexpr ReduceKernel kComplex = {kType, 2 * sizeof(typename Op::Acc), Rows<Op, T, 2>, Cols<Op, T, 2>, Init2<Op>, Merge2<Op>};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // once per target
