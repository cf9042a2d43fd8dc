// argmax, argmin, and max / min with indices. Dense lines: one pass that keeps the extreme of a block, then the
// position inside the best block. Lines side by side: the best values and their rows are kept in vectors.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "tensor/core/error.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/reduce/lines.h"
#include "tensor/cpu/reduce/reduce.h"
#include "tensor/cpu/reduce/reduce_kernels.h"
#include "tensor/cpu/support/simd.h"
#include "tensor/cpu/support/strided_nest.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/reduce/reduce_arg.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kShort = 24;  // shorter lines are done side by side

// First position of `value` (of a NaN, if value is one) in x, which holds it.
template <class T>
HWY_INLINE int64_t FindFirst(const T* x, int64_t n, T value) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kWidth = HWY_LANES(T);
  const auto v = hn::Set(d, value);
  int64_t i = 0;
  if (value == value) {
    for (; i + kWidth <= n; i += kWidth) {
      const intptr_t at = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, x + i), v));
      if (at >= 0) return i + at;
    }
    while (i < n - 1 && x[i] != value) ++i;
    return i;
  }
  while (i < n - 1 && x[i] == x[i]) ++i;
  return i;
}

template <bool kLargest, class T>
HWY_INLINE int64_t ArgShort(const T* x, int64_t n) {
  T best = x[0];
  if (best != best) return 0;
  int64_t at = 0;
  for (int64_t i = 1; i < n; ++i) {
    const T v = x[i];
    if (kLargest ? v > best : v < best) {
      best = v;
      at = i;
    } else if (v != v) {
      return i;
    }
  }
  return at;
}

// First position of the extreme, the first NaN if there is one.
template <class T>
HWY_INLINE int64_t ArgExtreme(const ReduceKernel* kernel, bool largest, const T* x, int64_t n) {
  constexpr int64_t kBlock = 2048;
  if (n < kShort) return largest ? ArgShort<true>(x, n) : ArgShort<false>(x, n);
  T best{};
  int64_t block = -1;
  for (int64_t b = 0; b < n; b += kBlock) {
    T e;
    kernel->rows(1, HWY_MIN(kBlock, n - b), x + b, 0, &e);
    if (block < 0 || e != e || (largest ? e > best : e < best)) {
      best = e;
      block = b;
      if (e != e) break;
    }
  }
  return block + FindFirst(x + block, HWY_MIN(kBlock, n - block), best);
}

// Extremes of `cols` columns (at most 256), and their rows. Rows are counted in the integer type of T's size; the
// caller keeps them below its maximum.
template <bool kLargest, class T>
void ArgColumns(int64_t rows, int64_t cols, const char* x, int64_t stride, T* best, hwy::MakeSigned<T>* at) {
  using Index = hwy::MakeSigned<T>;
  const hn::ScalableTag<T> d;
  const hn::ScalableTag<Index> di;
  constexpr int64_t kWidth = HWY_LANES(T);
  std::memcpy(best, x, cols * sizeof(T));
  std::fill(at, at + cols, Index{0});
  for (int64_t r = 1; r < rows; ++r) {
    const T* p = reinterpret_cast<const T*>(x + r * stride);
    const auto row = hn::Set(di, static_cast<Index>(r));
    int64_t c = 0;
    for (; c + kWidth <= cols; c += kWidth) {
      const auto a = hn::Load(d, best + c), v = hn::LoadU(d, p + c);
      // What is held stays unless the new one is strictly better or the first NaN.
      const auto keep = [&]() HWY_ATTR {
        if constexpr (std::is_floating_point_v<T>) {
          return hn::Or(kLargest ? hn::Ge(a, v) : hn::Le(a, v), hn::IsNaN(a));
        } else {
          return hn::Not(kLargest ? hn::Lt(a, v) : hn::Gt(a, v));
        }
      }();
      hn::Store(hn::IfThenElse(keep, a, v), d, best + c);
      hn::Store(hn::IfThenElse(hn::RebindMask(di, keep), hn::Load(di, at + c), row), di, at + c);
    }
    for (; c < cols; ++c) {
      const bool keep = (kLargest ? best[c] >= p[c] : best[c] <= p[c]) || best[c] != best[c];
      if (!keep) best[c] = p[c], at[c] = static_cast<Index>(r);
    }
  }
}

// Many short lines: a vector of them at a time, line r in lane r. Returns how many lines are done.
template <class T>
HWY_INLINE int64_t ShortLines(bool largest, const Lines& lines, int64_t n) {
  constexpr int64_t kWidth = HWY_LANES(T);
  HWY_ALIGN T x[kShort * kWidth];
  HWY_ALIGN T best[kWidth];
  HWY_ALIGN hwy::MakeSigned<T> at[kWidth];
  int64_t r0 = 0;
  for (; r0 + kWidth <= lines.rows; r0 += kWidth) {
    for (int64_t r = 0; r < kWidth; ++r) {
      const T* p = lines.row<T>(2, r0 + r);
      for (int64_t i = 0; i < n; ++i) x[i * kWidth + r] = p[i];
    }
    const char* bytes = reinterpret_cast<const char*>(x);
    largest ? ArgColumns<true>(n, kWidth, bytes, kWidth * sizeof(T), best, at)
            : ArgColumns<false>(n, kWidth, bytes, kWidth * sizeof(T), best, at);
    for (int64_t r = 0; r < kWidth; ++r) {
      if (lines.data[0]) *lines.row<T>(0, r0 + r) = best[r];
      if (lines.data[1]) *lines.row<int64_t>(1, r0 + r) = at[r];
    }
  }
  return r0;
}

template <class T>
HWY_INLINE void LinesOf(const ReduceKernel* kernel, bool largest, const Lines& lines, int64_t n) {
  int64_t r = 0;
  if constexpr (!std::is_unsigned_v<T>) {
    if (n < kShort) r = ShortLines<T>(largest, lines, n);
  }
  for (; r < lines.rows; ++r) {
    const T* x = lines.row<T>(2, r);
    const int64_t i = ArgExtreme(kernel, largest, x, n);
    if (lines.data[0]) *lines.row<T>(0, r) = x[i];
    if (lines.data[1]) *lines.row<int64_t>(1, r) = i;
  }
}

// values and indices: where the first column's results go (or null), and the steps between columns.
template <class T>
HWY_INLINE void ColumnsOf(bool largest, const ArgColumnBlock& b) {
  using Index = hwy::MakeSigned<T>;
  constexpr int64_t kChunk = 256;
  HWY_ALIGN T best[kChunk];
  HWY_ALIGN Index at[kChunk];
  for (int64_t c = 0; c < b.cols; c += kChunk) {
    const int64_t m = HWY_MIN(kChunk, b.cols - c);
    const char* x = b.in + c * static_cast<int64_t>(sizeof(T));
    largest ? ArgColumns<true>(b.rows, m, x, b.in_stride, best, at)
            : ArgColumns<false>(b.rows, m, x, b.in_stride, best, at);
    for (int64_t j = 0; j < m; ++j) {
      if (b.values) *reinterpret_cast<T*>(b.values + (c + j) * b.value_step) = best[j];
      if (b.indices) *reinterpret_cast<int64_t*>(b.indices + (c + j) * b.index_step) = at[j];
    }
  }
}

}  // namespace

void ArgLines(DType t, const ReduceKernel* kernel, bool largest, const Lines& lines, int64_t n) {
  switch (t) {
    case DType::kFloat32:
      return LinesOf<float>(kernel, largest, lines, n);
    case DType::kFloat64:
      return LinesOf<double>(kernel, largest, lines, n);
    case DType::kInt32:
      return LinesOf<int32_t>(kernel, largest, lines, n);
    case DType::kInt64:
      return LinesOf<int64_t>(kernel, largest, lines, n);
    default:
      return LinesOf<uint64_t>(kernel, largest, lines, n);
  }
}
void ArgColumnBlocks(DType t, bool largest, const ArgColumnBlock& b) {
  switch (t) {
    case DType::kFloat32:
      return ColumnsOf<float>(largest, b);
    case DType::kFloat64:
      return ColumnsOf<double>(largest, b);
    case DType::kInt32:
      return ColumnsOf<int32_t>(largest, b);
    default:
      return ColumnsOf<int64_t>(largest, b);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {
TESSERA_SIMD_TABLE(ArgLines);
TESSERA_SIMD_TABLE(ArgColumnBlocks);

// Exact for every value: halves as float32, small integers as int32.
DType load_dtype(DType t) {
  switch (t) {
    case DType::kFloat16:
    case DType::kBFloat16:
      return DType::kFloat32;
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kUInt16:
      return DType::kInt32;
    case DType::kUInt32:
      return DType::kInt64;
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUInt64:
    case DType::kFloat32:
    case DType::kFloat64:
      return t;
    default:
      return DType::kBool;  // none
  }
}

bool arg_columns(DType load, bool largest, std::span<const int64_t> shape, int dim, const Operand& values,
                 const Operand& indices, const Operand& in) {
  if (shape.empty() || in.dtype != load || load == DType::kUInt64 || shape[dim] < 2 || shape[dim] > INT32_MAX)
    return false;
  if (values.data != nullptr && values.dtype != load) return false;
  if (indices.data != nullptr && indices.dtype != DType::kInt64) return false;
  Nest<3> nest;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    if (d != dim)
      nest.push(shape[d], {in.strides[d], values.data ? values.strides[d] : 0, indices.data ? indices.strides[d] : 0});
  }
  nest.sort_by(0);
  nest.coalesce();
  if (nest.inner_stride(0) != item_size(load) || nest.inner_size() < 8) return false;
  parallel_for(nest.count(), std::max<int64_t>(256, 32768 / shape[dim]), [&](int64_t begin, int64_t end) {
    for_each_run(nest, begin, end, [&](const int64_t(&offset)[3], int64_t len) {
      TESSERA_SIMD(ArgColumnBlocks)
      (load, largest,
       {shape[dim], len, at_byte(static_cast<const void*>(in.data), offset[0]), in.strides[dim],
        values.data ? at_byte(values.data, offset[1]) : nullptr, nest.inner_stride(1),
        indices.data ? at_byte(indices.data, offset[2]) : nullptr, nest.inner_stride(2)});
    });
  });
  return true;
}
}  // namespace

void run_arg_reduce(bool largest, std::span<const int64_t> shape, int dim, const Operand& values,
                    const Operand& indices, const Operand& in) {
  const DType load = load_dtype(in.dtype);
  TESSERA_CHECK_NOT_IMPLEMENTED(load != DType::kBool, '"', largest ? "argmax_cpu" : "argmin_cpu",
                                "\" not implemented for '", type_name_of(in.dtype), "'");
  const int64_t n = shape.empty() ? 1 : shape[dim];
  TESSERA_CHECK_INDEX(n > 0, largest ? "argmax" : "argmin", "(): Expected reduction dim ", dim,
                      " to have non-zero size.");
  if (arg_columns(load, largest, shape, dim, values, indices, in)) return;
  const ReduceKernel* kernel = find_reduce_kernel(largest ? RowOp::kMax : RowOp::kMin, load);
  const LineOperand operands[3] = {{values, load, 1, true}, {indices, DType::kInt64, 1, true}, {in, load, n, false}};
  run_lines(shape, dim, operands, [&](const Lines& lines) { TESSERA_SIMD(ArgLines)(load, kernel, largest, lines, n); });
}

}  // namespace tessera::cpu
#endif
