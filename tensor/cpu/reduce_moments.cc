// Variance and logsumexp in Highway: reductions whose accumulator is a small struct.
#include "tensor/cpu/reduce_kernels.h"
#include "tensor/cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/reduce_moments.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "hwy/contrib/math/math-inl.h"
#include "tensor/cpu/reduce_simd-inl.h"

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

// Mean and squared deviations of one block, in float64.
template <class T>
HWY_INLINE VarState VarBlock(int64_t n, const T* x) {
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
  auto merge = [](VarState a, const VarState& b) { merge_var(a, b); return a; };
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

// exp(x - max) summed, in the element type's own precision inside a block.
template <class T>
HWY_INLINE LogSumExpState LogSumExpBlock(int64_t n, const T* x) {
  T max;
  ReduceBlock<ExtremeOp<T, true, false>, T, 1>(n, x, &max);
  if (!(max > -std::numeric_limits<T>::infinity())) return {static_cast<double>(max), 0};  // -inf or NaN
  if (max == std::numeric_limits<T>::infinity()) return {static_cast<double>(max), 1};
  const hn::ScalableTag<T> d;
  constexpr int64_t kWidth = HWY_LANES(T);
  HWY_ALIGN T e[kBlock];
  const auto m = hn::Set(d, max);
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) hn::Store(hn::Exp(d, hn::Sub(hn::LoadU(d, x + i), m)), d, e + i);
  if (i < n) {
    HWY_ALIGN T tail[kWidth] = {};
    for (int64_t j = 0; i + j < n; ++j) tail[j] = x[i + j];
    hn::Store(hn::Exp(d, hn::Sub(hn::Load(d, tail), m)), d, e + i);
  }
  T sum;
  ReduceBlock<AddOp<T, T, T>, T, 1>(n, e, &sum);
  return {static_cast<double>(max), static_cast<double>(sum)};
}

inline void MergeLogSumExp(LogSumExpState& a, const LogSumExpState& b) {
  if (a.max != a.max) return;
  if (b.max != b.max) { a = b; return; }
  if (a.max == b.max) { a.sum += b.sum; return; }
  if (a.max > b.max) {
    a.sum += b.sum * std::exp(b.max - a.max);
  } else {
    a.sum = b.sum + a.sum * std::exp(a.max - b.max);
    a.max = b.max;
  }
}

template <class T>
void LogSumExpRows(int64_t rows, int64_t n, const void* x, int64_t row_stride, void* acc) {
  auto merge = [](LogSumExpState a, const LogSumExpState& b) { MergeLogSumExp(a, b); return a; };
  for (int64_t r = 0; r < rows; ++r) {
    const T* p = reinterpret_cast<const T*>(static_cast<const char*>(x) + r * row_stride);
    PairwiseStack<LogSumExpState, decltype(merge)> stack(merge);
    for (int64_t i = 0; i < n; i += kBlock) stack.push(LogSumExpBlock<T>(HWY_MIN(kBlock, n - i), p + i));
    static_cast<LogSumExpState*>(acc)[r] = stack.total();
  }
}

template <class T>
void LogSumExpCols(int64_t rows, int64_t cols, const void* x, int64_t stride, void* acc) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kWidth = HWY_LANES(T);
  constexpr int64_t kChunk = 64;
  HWY_ALIGN T max[kChunk], sum[kChunk], shift[kChunk];
  for (int64_t r = 0; r < rows; r += kColBlock) {
    const int64_t nr = HWY_MIN(kColBlock, rows - r);
    for (int64_t c = 0; c < cols; c += kChunk) {
      const int64_t m = HWY_MIN(kChunk, cols - c);
      const char* base = static_cast<const char*>(x) + r * stride + c * static_cast<int64_t>(sizeof(T));
      for (int64_t j = 0; j < kChunk; ++j) { max[j] = -std::numeric_limits<T>::infinity(); sum[j] = 0; }
      StepRows<ExtremeOp<T, true, false>, T>(nr, m, base, stride, max);
      for (int64_t j = 0; j < kChunk; ++j) shift[j] = std::isfinite(max[j]) ? max[j] : T{0};
      HWY_ALIGN T row[kChunk] = {};
      for (int64_t i = 0; i < nr; ++i) {
        std::memcpy(row, base + i * stride, m * sizeof(T));
        for (int64_t j = 0; j < m; j += kWidth) {
          const auto e = hn::Exp(d, hn::Sub(hn::Load(d, row + j), hn::Load(d, shift + j)));
          hn::Store(hn::Add(hn::Load(d, sum + j), e), d, sum + j);
        }
      }
      LogSumExpState* a = static_cast<LogSumExpState*>(acc) + c;
      for (int64_t j = 0; j < m; ++j) {
        const bool finite = std::isfinite(max[j]);
        MergeLogSumExp(a[j], {static_cast<double>(max[j]), finite ? static_cast<double>(sum[j]) : max[j] > 0 ? 1.0 : 0.0});
      }
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
  for (int64_t i = 0; i < n; ++i) MergeLogSumExp(static_cast<LogSumExpState*>(acc)[i], static_cast<const LogSumExpState*>(more)[i]);
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
