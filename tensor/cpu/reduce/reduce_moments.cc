// Variance and logsumexp in Highway: reductions whose accumulator is a small struct.
#include "tensor/cpu/reduce/reduce_kernels.h"
#include "tensor/cpu/support/request.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/reduce/reduce_moments.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/cpu/reduce/reduce_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

template <int N, class D, class V, class T>
HWY_INLINE void StepDeviation(D d, Pack<V, N>& p, const T* x, V mean) {
  if constexpr (N == 1) {
    const auto e = hn::Sub(LoadAs(d, x), mean);
    p.v = hn::Add(p.v, hn::Mul(e, e));
  } else {
    StepDeviation(d, p.a, x, mean);
    StepDeviation(d, p.b, x + N / 2 * HWY_LANES(double), mean);
  }
}

// Of floats in one pass, with the deviations from the first element. False if that lies so far from the mean that
// digits were lost.
HWY_INLINE bool VarInOnePass(int64_t n, const float* x, VarState* out) {
  const hn::ScalableTag<double> d;
  constexpr int64_t kWidth = HWY_LANES(double);
  const auto first = hn::Set(d, static_cast<double>(x[0]));
  auto s0 = hn::Zero(d), s1 = s0, q0 = s0, q1 = s0;
  int64_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) {
    request_ahead(x + i, kRequestFarAhead);
    const auto a = hn::Sub(LoadAs(d, x + i), first), b = hn::Sub(LoadAs(d, x + i + kWidth), first);
    s0 = hn::Add(s0, a);
    s1 = hn::Add(s1, b);
    q0 = hn::MulAdd(a, a, q0);
    q1 = hn::MulAdd(b, b, q1);
  }
  for (; i < n; i += kWidth) {
    const auto a = hn::Sub(i + kWidth <= n ? LoadAs(d, x + i) : LoadFirstAs(d, x + i, n - i, x[0]), first);
    s0 = hn::Add(s0, a);
    q0 = hn::MulAdd(a, a, q0);
  }
  const double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1))),
               squares = hn::GetLane(hn::SumOfLanes(d, hn::Add(q0, q1)));
  const double shift = sum / static_cast<double>(n), m2 = squares - sum * shift;
  *out = {static_cast<double>(n), static_cast<double>(x[0]) + shift, HWY_MAX(m2, 0.0)};
  return sum * shift <= 65536 * m2 || squares == 0;
}

// Mean and squared deviations of one block, in float64.
template <class T>
HWY_NOINLINE VarState VarBlock(int64_t n, const T* x) {
  if constexpr (sizeof(T) == 4) {
    VarState state;
    if (VarInOnePass(n, x, &state)) return state;
  }
  double mean;
  ReduceBlock<AddOp<T, double, double>, T, 1>(n, x, &mean);
  mean /= static_cast<double>(n);
  const hn::ScalableTag<double> d;
  constexpr int64_t kWidth = HWY_LANES(double);
  constexpr int64_t kLanes = 16;
  Pack<hn::Vec<decltype(d)>, kLanes / kWidth> v;
  Fill(d, v, hn::Zero(d));
  const auto m = hn::Set(d, mean);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) StepDeviation(d, v, x + i, m);
  HWY_ALIGN double lanes[2];
  FoldLanes<AddOp<T, double, double>, 2>(d, MergePack<AddOp<T, double, double>>(d, v), lanes);
  for (; i < n; ++i) {
    const double e = static_cast<double>(x[i]) - mean;
    lanes[i & 1] += e * e;
  }
  return {static_cast<double>(n), mean, lanes[0] + lanes[1]};
}

template <class T>
void VarRows(int64_t rows, int64_t n, const void* x, int64_t row_stride, void* acc) {
  auto merge = [](VarState a, const VarState& b) {
    merge_var(a, b);
    return a;
  };
  for (int64_t r = 0; r < rows; ++r) {
    const T* p = reinterpret_cast<const T*>(static_cast<const char*>(x) + r * row_stride);
    PairwiseStack<VarState, decltype(merge)> stack(merge);
    for (int64_t i = 0; i < n; i += kBlock) stack.push(VarBlock<T>(HWY_MIN(kBlock, n - i), p + i));
    static_cast<VarState*>(acc)[r] = stack.total();
  }
}

template <class T>
void VarCols(int64_t rows, int64_t cols, const void* x, int64_t stride, void* acc) {
  const hn::ScalableTag<double> d;
  constexpr int64_t kWidth = HWY_LANES(double);
  HWY_ALIGN double mean[kColChunk], m2[kColChunk];
  for (int64_t r = 0; r < rows; r += kColBlock) {
    const int64_t nr = HWY_MIN(kColBlock, rows - r);
    for (int64_t c = 0; c < cols; c += kColChunk) {
      const int64_t m = HWY_MIN(kColChunk, cols - c);
      const char* base = static_cast<const char*>(x) + r * stride + c * static_cast<int64_t>(sizeof(T));
      for (int64_t j = 0; j < m; ++j) mean[j] = m2[j] = 0;
      StepRows<AddOp<T, double, double>, T>(nr, m, base, stride, mean);
      for (int64_t j = 0; j < m; ++j) mean[j] /= static_cast<double>(nr);
      for (int64_t i = 0; i < nr; ++i) {
        const T* p = reinterpret_cast<const T*>(base + i * stride);
        int64_t j = 0;
        for (; j + kWidth <= m; j += kWidth) {
          const auto e = hn::Sub(LoadAs(d, p + j), hn::Load(d, mean + j));
          hn::Store(hn::Add(hn::Load(d, m2 + j), hn::Mul(e, e)), d, m2 + j);
        }
        for (; j < m; ++j) {
          const double e = static_cast<double>(p[j]) - mean[j];
          m2[j] += e * e;
        }
      }
      VarState* a = static_cast<VarState*>(acc) + c;
      for (int64_t j = 0; j < m; ++j) merge_var(a[j], {static_cast<double>(nr), mean[j], m2[j]});
    }
  }
}

template <class T>
T NanOr(T value, int64_t n, const char* x, int64_t stride) {
  for (int64_t i = 0; i < n; ++i) {
    const T v = *reinterpret_cast<const T*>(x + i * stride);
    if (v != v) return v;
  }
  return value;
}
// The state for a largest element, to which NaN may have done anything, and a sum: where that element is infinite, the
// sum of exponentials is NaN.
template <class T>
HWY_INLINE LogSumExpState StateOf(T max, double sum, int64_t n, const char* x, int64_t stride) {
  if (std::isfinite(max)) return {static_cast<double>(max), sum};
  max = NanOr(max, n, x, stride);
  return {static_cast<double>(max), max > 0 ? 1.0 : 0.0};
}

inline void MergeLogSumExp(LogSumExpState& a, const LogSumExpState& b) {
  if (a.max != a.max) return;
  if (b.max != b.max) {
    a = b;
    return;
  }
  if (a.max == b.max) {
    a.sum += b.sum;
    return;
  }
  if (a.max > b.max) {
    a.sum += b.sum * std::exp(b.max - a.max);
  } else {
    a.sum = b.sum + a.sum * std::exp(a.max - b.max);
    a.max = b.max;
  }
}

template <class T>
void LogSumExpRows(int64_t rows, int64_t n, const void* x, int64_t row_stride, void* acc) {
  auto merge = [](LogSumExpState a, const LogSumExpState& b) {
    MergeLogSumExp(a, b);
    return a;
  };
  for (int64_t r = 0; r < rows; ++r) {
    const T* p = reinterpret_cast<const T*>(static_cast<const char*>(x) + r * row_stride);
    PairwiseStack<LogSumExpState, decltype(merge)> stack(merge);
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = HWY_MIN(kBlock, n - i);
      const T max = MaxOfRow(p + i, m);
      stack.push(StateOf(
          max, SumExpOfRow<T>(p + i, m, max, nullptr, p + i + kRequestFarAhead / static_cast<int64_t>(sizeof(T))), m,
          reinterpret_cast<const char*>(p + i), sizeof(T)));
    }
    static_cast<LogSumExpState*>(acc)[r] = stack.total();
  }
}

template <class T>
void LogSumExpCols(int64_t rows, int64_t cols, const void* x, int64_t stride, void* acc) {
  HWY_ALIGN T max[kColChunk], sum[kColChunk];
  for (int64_t c = 0; c < cols; c += kColChunk) {
    const int64_t m = HWY_MIN(kColChunk, cols - c);
    const char* const base = static_cast<const char*>(x) + c * static_cast<int64_t>(sizeof(T));
    SumExpOfColumns(rows, m, base, stride, max, sum);
    LogSumExpState* a = static_cast<LogSumExpState*>(acc) + c;
    for (int64_t j = 0; j < m; ++j) {
      const bool none = max[j] == std::numeric_limits<T>::lowest() && sum[j] == 0;
      const T largest = none ? -kInfinity<T> : max[j];
      MergeLogSumExp(a[j], StateOf(largest, static_cast<double>(sum[j]), rows,
                                   base + j * static_cast<int64_t>(sizeof(T)), stride));
    }
  }
}

void InitVar(int64_t n, void* acc) { std::memset(acc, 0, n * sizeof(VarState)); }
void MergeVar(int64_t n, void* acc, const void* more) {
  for (int64_t i = 0; i < n; ++i) merge_var(static_cast<VarState*>(acc)[i], static_cast<const VarState*>(more)[i]);
}
void InitLse(int64_t n, void* acc) {
  for (int64_t i = 0; i < n; ++i) static_cast<LogSumExpState*>(acc)[i] = {-std::numeric_limits<double>::infinity(), 0};
}
void MergeLse(int64_t n, void* acc, const void* more) {
  for (int64_t i = 0; i < n; ++i)
    MergeLogSumExp(static_cast<LogSumExpState*>(acc)[i], static_cast<const LogSumExpState*>(more)[i]);
}

template <class T, DType kType>
constexpr ReduceKernel kVar = {kType, sizeof(VarState), VarRows<T>, VarCols<T>, InitVar, MergeVar};
template <class T, DType kType>
constexpr ReduceKernel kLse = {kType, sizeof(LogSumExpState), LogSumExpRows<T>, LogSumExpCols<T>, InitLse, MergeLse};

}  // namespace

const ReduceKernel* FindMoments(RowOp op, DType block) {
  if (block != DType::kFloat32 && block != DType::kFloat64) return nullptr;
  const bool wide = block == DType::kFloat64;
  if (op == RowOp::kVar) return wide ? &kVar<double, DType::kFloat64> : &kVar<float, DType::kFloat32>;
  if (op == RowOp::kLogSumExp) return wide ? &kLse<double, DType::kFloat64> : &kLse<float, DType::kFloat32>;
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
TESSERA_SIMD_TABLE(FindMoments);
const ReduceKernel* find_moments_kernel(RowOp op, DType block) { return TESSERA_SIMD(FindMoments)(op, block); }
}  // namespace tessera::cpu
#endif
