// The shared part of the reduction kernels in Highway: how blocks, rows and columns are reduced, for any operation.
// Included once per target.
//
// A block of up to kBlock elements is reduced in a fixed number of logical lanes whatever the vector width, folded by
// halves; blocks are combined pairwise in the accumulator's type. So results are the same on every machine and their
// error does not grow with the number of elements.
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tensor/cpu/reduce/reduce_kernels.h"

#if defined(TESSERA_CPU_REDUCE_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_REDUCE_SIMD_INL_H_
#undef TESSERA_CPU_REDUCE_SIMD_INL_H_
#else
#define TESSERA_CPU_REDUCE_SIMD_INL_H_
#endif

#include "hwy/highway.h"
#include "tensor/cpu/reduce/rows_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kBlock = 2048;    // elements of a row between two steps of the pairwise stack
constexpr int64_t kColBlock = 32;   // rows summed in lanes before they reach the accumulators
constexpr int64_t kColChunk = 256;  // columns at a time: their lanes stay in L1

// Loads elements of type T as vectors of Lane (the same type, or float to double).
template <class D, class T>
HWY_INLINE hn::Vec<D> LoadAs(D d, const T* p) {
  if constexpr (sizeof(T) == sizeof(hn::TFromD<D>)) {
    return hn::LoadU(d, p);
  } else {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, D>(), p));
  }
}

// The first n elements at p, n less than a vector of them, then `pad`.
template <class D, class T>
HWY_INLINE hn::Vec<D> LoadFirstAs(D d, const T* p, int64_t n, T pad) {
  if constexpr (sizeof(T) == sizeof(hn::TFromD<D>)) {
    return LoadFirst(d, p, n, pad);
  } else {
    return hn::PromoteTo(d, LoadFirst(hn::Rebind<T, D>(), p, n, pad));
  }
}

// Of accumulators.
template <class Acc>
Acc AddAccs(Acc a, Acc b) {
  return a + b;
}
template <class Acc>
Acc MultiplyAccs(Acc a, Acc b) {
  return a * b;
}

// The operations: Step takes one more element into a lane, Merge joins two lanes.
template <class T_, class Lane_, class Acc_>
struct AddOp {
  using T = T_;
  using Lane = Lane_;
  using Acc = Acc_;
  static constexpr bool kMayFail = false;
  static Lane Identity() { return 0; }
  static Acc Zero() { return 0; }
  static Lane Map(Lane x) { return x; }
  static Lane Step(Lane a, Lane x) { return a + x; }
  static Lane Merge(Lane a, Lane b) { return a + b; }
  static constexpr auto kMergeAccs = &AddAccs<Acc>;
  template <class D, class V>
  static HWY_INLINE V VStep(D, V a, V x) {
    return hn::Add(a, x);
  }
  template <class D, class V>
  static HWY_INLINE V VMerge(D, V a, V b) {
    return hn::Add(a, b);
  }
};
template <class T, class Lane>
struct NanSumOp : AddOp<T, Lane, double> {
  static Lane Step(Lane a, Lane x) { return x != x ? a : a + x; }
  template <class D, class V>
  static HWY_INLINE V VStep(D, V a, V x) {
    return hn::Add(a, hn::IfThenZeroElse(hn::IsNaN(x), x));
  }
};
template <class T>
struct AbsSumOp : AddOp<T, T, double> {
  static T Step(T a, T x) { return a + std::fabs(x); }
  template <class D, class V>
  static HWY_INLINE V VStep(D, V a, V x) {
    return hn::Add(a, hn::Abs(x));
  }
};
template <class T, class Lane_>
struct SumSquaresOp : AddOp<T, Lane_, double> {
  using Lane = Lane_;
  static Lane Step(Lane a, Lane x) { return a + x * x; }
  template <class D, class V>
  static HWY_INLINE V VStep(D, V a, V x) {
    return hn::Add(a, hn::Mul(x, x));
  }
  // In float, squares overflow or vanish where their root would not: such sums are done again in double.
  static constexpr bool kMayFail = sizeof(Lane) == 4;
  using Again = SumSquaresOp<T, double>;
  static bool Failed(Lane sum) { return !(sum >= 1e-25f && sum <= std::numeric_limits<float>::max()); }
};
template <class T>
struct ProdOp {
  using Lane = double;
  using Acc = double;
  static constexpr bool kMayFail = false;
  static double Identity() { return 1; }
  static double Zero() { return 1; }
  static double Step(double a, double x) { return a * x; }
  static double Merge(double a, double b) { return a * b; }
  static constexpr auto kMergeAccs = &MultiplyAccs<double>;
  template <class D, class V>
  static HWY_INLINE V VStep(D, V a, V x) {
    return hn::Mul(a, x);
  }
  template <class D, class V>
  static HWY_INLINE V VMerge(D, V a, V b) {
    return hn::Mul(a, b);
  }
};
// N vectors as a tree of members: unlike an array, the compiler keeps them in registers.
template <class V, int N>
struct Pack {
  Pack<V, N / 2> a, b;
};
template <class V>
struct Pack<V, 1> {
  V v;
};

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
// The same for the last elements, fewer than N vectors of them.
template <class Op, int N, class D, class V, class T>
HWY_INLINE void StepPackEnd(D d, Pack<V, N>& p, const T* x, int64_t left) {
  constexpr int64_t kWidth = HWY_LANES(hn::TFromD<D>);
  if (left <= 0) return;
  if constexpr (N == 1) {
    p.v = Op::VStep(d, p.v, left >= kWidth ? LoadAs(d, x) : LoadFirstAs(d, x, left, static_cast<T>(Op::Identity())));
  } else {
    StepPackEnd<Op>(d, p.a, x, left);
    StepPackEnd<Op>(d, p.b, x + N / 2 * kWidth, left - N / 2 * kWidth);
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
  if constexpr (sizeof(Lane) * hn::MaxLanes(d) > 16) {
    const hn::Half<D> half;
    FoldLanes<Op, kFold>(half, Op::VMerge(half, hn::LowerHalf(half, v), hn::UpperHalf(half, v)), out);
  } else {
    if constexpr (sizeof(Lane) == 4) v = Op::VMerge(d, v, hn::Shuffle1032(v));
    if constexpr (kFold == 1) {
      if constexpr (sizeof(Lane) == 4)
        v = Op::VMerge(d, v, hn::Shuffle2301(v));
      else
        v = Op::VMerge(d, v, hn::Shuffle01(v));
      out[0] = hn::GetLane(v);
    } else {
      HWY_ALIGN Lane lanes[16 / sizeof(Lane)];
      hn::Store(v, d, lanes);
      for (int j = 0; j < kFold; ++j) out[j] = lanes[j];
    }
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

// One block of at most kBlock elements. kFold is 2 for interleaved complex numbers: then the two halves of the answer
// stand in out[0] and out[1].
template <class Op, class T, int kFold>
HWY_INLINE void ReduceLong(int64_t n, const T* HWY_RESTRICT x, typename Op::Lane* out) {
  using Lane = typename Op::Lane;
  const hn::ScalableTag<Lane> d;
  constexpr int64_t kLanes = 256 / sizeof(Lane);
  constexpr int64_t kWidth = HWY_LANES(Lane);
  using V = hn::Vec<decltype(d)>;
  Pack<V, kLanes / kWidth> v;
  Fill(d, v, hn::Set(d, Op::Identity()));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) StepPack<Op>(d, v, x + i);
  StepPackEnd<Op>(d, v, x + i, n - i);  // padded with what changes nothing
  FoldLanes<Op, kFold>(d, MergePack<Op>(d, v), out);
}

template <class Op, class T, int kFold>
HWY_NOINLINE void ReduceBlock(int64_t n, const T* HWY_RESTRICT x, typename Op::Lane* out) {
  if (n < 32) {
    ReduceShort<Op, T, kFold>(n, x, out);
  } else {
    ReduceLong<Op, T, kFold>(n, x, out);
  }
}

// The same in the accumulator's type.
template <class Op, class T, int kFold>
void AccumulateBlock(int64_t n, const T* x, typename Op::Acc* out) {
  typename Op::Lane part[2];
  ReduceBlock<Op, T, kFold>(n, x, part);
  if constexpr (Op::kMayFail) {
    if (Op::Failed(part[0])) return ReduceBlock<typename Op::Again, T, kFold>(n, x, out);
  }
  for (int j = 0; j < kFold; ++j) out[j] = static_cast<typename Op::Acc>(part[j]);
}

template <class A>
struct Pair {
  A v[2];
};

// Rows in blocks, whose accumulators `block` gives: the same code for all operations that join them in one way.
template <class Acc, Acc (*kMerge)(Acc, Acc), int kFold>
HWY_NOINLINE void RowsInBlocks(void (*block)(int64_t, const char*, Acc*), int64_t item, int64_t rows, int64_t n,
                               const char* x, int64_t row_stride, Acc* out) {
  auto merge = [](const Pair<Acc>& a, const Pair<Acc>& b) {
    Pair<Acc> r = a;
    for (int j = 0; j < kFold; ++j) r.v[j] = kMerge(a.v[j], b.v[j]);
    return r;
  };
  for (int64_t r = 0; r < rows; ++r, x += row_stride, out += kFold) {
    if (n <= kBlock) {
      block(n, x, out);
      continue;
    }
    PairwiseStack<Pair<Acc>, decltype(merge)> stack(merge);
    for (int64_t i = 0; i < n; i += kBlock) {
      Pair<Acc> a{};
      block(HWY_MIN(kBlock, n - i), x + i * item, a.v);
      stack.push(a);
    }
    const Pair<Acc> total = stack.total();
    for (int j = 0; j < kFold; ++j) out[j] = total.v[j];
  }
}
template <class Op, class T, int kFold>
void Rows(int64_t rows, int64_t n, const void* x, int64_t row_stride, void* acc) {
  using Acc = typename Op::Acc;
  const auto block = [](int64_t count, const char* p, Acc* out) {
    AccumulateBlock<Op, T, kFold>(count, reinterpret_cast<const T*>(p), out);
  };
  RowsInBlocks<Acc, Op::kMergeAccs, kFold>(block, sizeof(T), rows, n * kFold, static_cast<const char*>(x), row_stride,
                                           static_cast<Acc*>(acc));
}

// lanes[c] = Step(... Step(lanes[c], x[0][c]) ..., x[rows - 1][c]). lanes: whole vectors.
template <class Op, class T>
HWY_NOINLINE void StepRows(int64_t rows, int64_t cols, const char* x, int64_t stride,
                           typename Op::Lane* HWY_RESTRICT lanes) {
  using Lane = typename Op::Lane;
  const hn::ScalableTag<Lane> d;
  constexpr int64_t kWidth = HWY_LANES(Lane);
  const T pad = static_cast<T>(Op::Identity());
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
  }
  const int64_t whole = cols / kWidth * kWidth;
  for (; r < rows; ++r) {
    const T* p = reinterpret_cast<const T*>(x + r * stride);
    for (int64_t c = 0; c < whole; c += kWidth)
      hn::StoreU(Op::VStep(d, hn::LoadU(d, lanes + c), LoadAs(d, p + c)), d, lanes + c);
  }
  if (whole == cols) return;
  auto v = hn::LoadU(d, lanes + whole);
  for (r = 0; r < rows; ++r)
    v = Op::VStep(d, v, LoadFirstAs(d, reinterpret_cast<const T*>(x + r * stride) + whole, cols - whole, pad));
  hn::StoreU(v, d, lanes + whole);
}

// The same from fresh lanes, merged into the accumulators.
template <class Op, class T>
void AccumulateRows(int64_t rows, int64_t cols, const char* x, int64_t stride, typename Op::Acc* acc) {
  using Acc = typename Op::Acc;
  using Lane = typename Op::Lane;
  const hn::ScalableTag<Lane> d;
  const hn::ScalableTag<Acc> da;
  constexpr int64_t kWidth = HWY_LANES(Acc);
  HWY_ALIGN Lane lanes[kColChunk];
  for (int64_t j = 0; j < cols; j += HWY_LANES(Lane)) hn::Store(hn::Set(d, Op::Identity()), d, lanes + j);
  StepRows<Op, T>(rows, cols, x, stride, lanes);
  if constexpr (Op::kMayFail) {
    bool failed = false;
    for (int64_t j = 0; j < cols; ++j) failed |= Op::Failed(lanes[j]);
    if (failed) return AccumulateRows<typename Op::Again, T>(rows, cols, x, stride, acc);
  }
  int64_t j = 0;
  for (; j + kWidth <= cols; j += kWidth)
    hn::StoreU(Op::VMerge(da, hn::LoadU(da, acc + j), LoadAs(da, lanes + j)), da, acc + j);
  for (; j < cols; ++j) acc[j] = Op::kMergeAccs(acc[j], static_cast<Acc>(lanes[j]));
}

template <class Acc>
HWY_NOINLINE void ColsInBlocks(void (*block)(int64_t, int64_t, const char*, int64_t, Acc*), int64_t item, int64_t rows,
                               int64_t cols, const char* x, int64_t stride, Acc* acc) {
  for (int64_t r = 0; r < rows; r += kColBlock) {
    for (int64_t c = 0; c < cols; c += kColChunk)
      block(HWY_MIN(kColBlock, rows - r), HWY_MIN(kColChunk, cols - c), x + r * stride + c * item, stride, acc + c);
  }
}
template <class Op, class T, int kFold>
void Cols(int64_t rows, int64_t cols, const void* x, int64_t stride, void* acc) {
  using Acc = typename Op::Acc;
  ColsInBlocks<Acc>(AccumulateRows<Op, T>, sizeof(T), rows, cols * kFold, static_cast<const char*>(x), stride,
                    static_cast<Acc*>(acc));
}

template <class Acc>
void Init(int64_t n, void* acc, Acc value) {
  for (int64_t i = 0; i < n; ++i) static_cast<Acc*>(acc)[i] = value;
}
template <class Acc, Acc (*kMerge)(Acc, Acc), int kFold>
void Merge(int64_t n, void* acc, const void* more) {
  for (int64_t i = 0; i < kFold * n; ++i)
    static_cast<Acc*>(acc)[i] = kMerge(static_cast<Acc*>(acc)[i], static_cast<const Acc*>(more)[i]);
}
template <class Op, int kFold>
void InitOf(int64_t n, void* acc) {
  Init<typename Op::Acc>(kFold * n, acc, Op::Zero());
}

template <class Op, class T, DType kType, int kFold>
constexpr ReduceKernel kKernel = {kType,
                                  kFold * sizeof(typename Op::Acc),
                                  Rows<Op, T, kFold>,
                                  Cols<Op, T, kFold>,
                                  InitOf<Op, kFold>,
                                  Merge<typename Op::Acc, Op::kMergeAccs, kFold>};
template <class Op, class T, DType kType>
constexpr const ReduceKernel& kReal = kKernel<Op, T, kType, 1>;
template <class Op, class T, DType kType>
constexpr const ReduceKernel& kComplex = kKernel<Op, T, kType, 2>;

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // once per target
