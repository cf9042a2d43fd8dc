// softmax and log_softmax, forward and backward, over dense lines in Highway.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tensor/core/error.h"
#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/cpu/pointwise/pointwise_ops.h"
#include "tensor/cpu/reduce/lines.h"
#include "tensor/cpu/reduce/reduce.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/request.h"
#include "tensor/cpu/support/simd.h"
#include "tensor/cpu/support/simd_move.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/reduce/softmax.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/cpu/reduce/rows_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kShort = 16;             // lines up to this length are done side by side, one per lane
constexpr int64_t kTermsInCache = 65536;   // exponentials of a line that are kept in cache while results go past it
constexpr int64_t kColumnChunk = 512;      // columns at a time: their maxima and sums stay in L1
constexpr int64_t kColumnBytes = 1 << 20;  // and what is kept of them, where that is not fewer than
constexpr int64_t kFewColumns = 64;
// Bytes of the next line that are requested ahead, to the second cache: the first holds what the loop is at, and stores
// past the caches keep its buffers busy.
constexpr int64_t kAheadInTurn = 4096;

// A line whose sum is known, on its way to y: softmax is `from` (its exponentials) times a, log_softmax `from` (the
// line) less a, less b.
template <class T>
struct Results {
  using V = hn::Vec<hn::ScalableTag<T>>;
  static constexpr int64_t kWidth = kWidthOf<T>;
  T* y;
  const T* from;
  int64_t n, at;
  bool log, stream;  // stream: past the caches, with a fence to follow
  V a, b;

  HWY_INLINE static V Of(bool log, V v, V a, V b) { return log ? hn::Sub(hn::Sub(v, a), b) : hn::Mul(v, a); }
  // Not a member of an object, whose fields then stay in registers.
  HWY_NOINLINE static void PartOf(bool log, T* y, const T* from, int64_t count, V a, V b) {
    const hn::ScalableTag<T> d;
    StoreFirst(Of(log, LoadFirst(d, from, count, T{0}), a, b), d, y, count);
  }
  HWY_INLINE void Part(int64_t count) {
    if (count > 0) PartOf(log, y + at, from + at, count, a, b);
    at += count;
  }
  // What lies before the first whole vector.
  HWY_INLINE void Begin() {
    at = 0;
    if (stream) Part(HWY_MIN(n, static_cast<int64_t>(-reinterpret_cast<uintptr_t>(y) / sizeof(T) & (kWidth - 1))));
  }
  // The next vector, if there is one.
  HWY_INLINE void Step() {
    if (at + kWidth > n) return;
    const auto v = Of(log, hn::LoadU(hn::ScalableTag<T>(), from + at), a, b);
    if (stream)
      hn::Stream(v, hn::ScalableTag<T>(), y + at);
    else
      hn::StoreU(v, hn::ScalableTag<T>(), y + at);
    at += kWidth;
  }
  HWY_INLINE void Finish() {
    while (at + kWidth <= n) Step();
    Part(n - at);
  }
};

// One loop sums a line's exponentials, looks for the next line's maximum and writes the results of the line before:
// memory and arithmetic are busy at the same time, and no line waits for the end of the one before. A maximum that is
// infinite or NaN makes a NaN of the sum, and so of the whole line, as it should.
template <class T>
HWY_NOINLINE void SoftmaxInTurn(bool log, bool stream, const Lines& lines, int64_t n) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kWidth = kWidthOf<T>;
  // Two lines' exponentials, half a page apart beyond whole pages: a load seems to depend on earlier stores whose
  // addresses differ by whole pages.
  constexpr int64_t kPage = 4096 / sizeof(T);
  const int64_t apart = (n + kPage - 1) / kPage * kPage + kPage / 2;
  const internal::ScratchArray<T> storage(stream && !log ? 2 * apart : 0);
  Results<T> before{nullptr, nullptr, 0, 0, log, stream, hn::Zero(d), hn::Zero(d)};
  T max = MaxOfRow(lines.row<T>(1, 0), n);
  for (int64_t r = 0; r < lines.rows; ++r) {
    const T* const x = lines.row<T>(1, r);
    const T* const next = r + 1 < lines.rows ? lines.row<T>(1, r + 1) : x;
    T* const y = lines.row<T>(0, r);
    T* const terms = log ? nullptr : stream ? storage.get() + (r & 1) * apart : y;
    const auto m = hn::Set(d, max);
    auto most = hn::Set(d, -kInfinity<T>), more = most;
    double total = 0;
    before.Begin();
    for (int64_t b = 0; b < n; b += kSumBlock) {
      const int64_t end = HWY_MIN(n, b + kSumBlock);
      auto sum = hn::Zero(d);
      int64_t i = b;
      for (; i + kWidth <= end; i += kWidth) {
        if (stream) __builtin_prefetch(next + i + kAheadInTurn / sizeof(T), 0, 2);
        most = hn::Max(most, hn::LoadU(d, next + i));
        const auto e = ExpBelow0(d, hn::Sub(hn::LoadU(d, x + i), m));
        if (terms != nullptr) hn::StoreU(e, d, terms + i);
        sum = hn::Add(sum, e);
        before.Step();
      }
      if (i < end) {
        more = hn::Max(more, LoadFirst(d, next + i, end - i, -kInfinity<T>));
        const auto e = ExpBelow0(d, hn::Sub(LoadFirst(d, x + i, end - i, -kInfinity<T>), m));
        if (terms != nullptr) StoreFirst(e, d, terms + i, end - i);
        sum = hn::Add(sum, e);
      }
      total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
    }
    before.Finish();
    before = {y,
              log ? x : terms,
              n,
              0,
              log,
              stream,
              log ? m : hn::Set(d, static_cast<T>(1 / total)),
              hn::Set(d, log ? static_cast<T>(std::log(total)) : T{0})};
    max = hn::GetLane(hn::MaxOfLanes(d, hn::Max(most, more)));
  }
  before.Begin();
  before.Finish();
  if (stream) stream_fence();
}

// kWidth short lines at a time, line r in lane r.
template <class T>
HWY_INLINE void SoftmaxShort(bool log, const Lines& lines, int64_t n) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kWidth = HWY_LANES(T);
  HWY_ALIGN T x[kShort * kWidth] = {};
  for (int64_t r0 = 0; r0 < lines.rows; r0 += kWidth) {
    const int64_t rows = HWY_MIN(kWidth, lines.rows - r0);
    for (int64_t r = 0; r < rows; ++r) {
      const T* p = lines.row<T>(1, r0 + r);
      for (int64_t i = 0; i < n; ++i) x[i * kWidth + r] = p[i];
    }
    auto max = hn::Load(d, x);
    for (int64_t i = 1; i < n; ++i) {
      const auto v = hn::Load(d, x + i * kWidth);
      max = hn::IfThenElse(hn::Or(hn::Ge(max, v), hn::IsNaN(max)), max, v);
    }
    // Not finite: the whole line is NaN, which max - max gives.
    const auto poison = hn::Sub(max, max);
    auto sum = hn::Zero(d);
    for (int64_t i = 0; i < n; ++i) {
      const auto v = hn::Sub(hn::Load(d, x + i * kWidth), max);
      const auto e = ExpBelow0(d, v);
      sum = hn::Add(sum, e);
      hn::Store(log ? v : e, d, x + i * kWidth);
    }
    if (log) {
      const auto l = hn::Add(math::Log(d, sum), poison);
      for (int64_t i = 0; i < n; ++i) hn::Store(hn::Sub(hn::Load(d, x + i * kWidth), l), d, x + i * kWidth);
    } else {
      for (int64_t i = 0; i < n; ++i)
        hn::Store(hn::Add(hn::Div(hn::Load(d, x + i * kWidth), sum), poison), d, x + i * kWidth);
    }
    for (int64_t r = 0; r < rows; ++r) {
      T* p = lines.row<T>(0, r0 + r);
      for (int64_t i = 0; i < n; ++i) p[i] = x[i * kWidth + r];
    }
  }
}

template <class T>
void SoftmaxLines(bool log, bool stream, const Lines& lines, int64_t n) {
  if (n <= kShort) return SoftmaxShort<T>(log, lines, n);
  SoftmaxInTurn<T>(log, stream && (log || n <= kTermsInCache), lines, n);
}

// step(load, first row, end) for blocks of kRowBlock rows and vectors of m columns.
template <class T, class F>
HWY_INLINE void WalkColumns(int64_t rows, int64_t m, F&& step) {
  constexpr int64_t kWidth = kWidthOf<T>;
  for (int64_t i = 0; i < rows; i += kRowBlock) {
    const int64_t end = HWY_MIN(rows, i + kRowBlock);
    int64_t k = 0;
    for (; k + kWidth <= m; k += kWidth) step(Whole<T>{k}, i, end);
    if (k < m) step(First<T>{k, m - k}, i, end);
  }
}
template <class T, class V>
HWY_INLINE void Put(Whole<T> place, V v, T* row) {
  hn::StoreU(v, hn::ScalableTag<T>(), row + place.at);
}
template <class T, class V>
HWY_INLINE void Put(First<T> place, V v, T* row) {
  StoreFirst(v, hn::ScalableTag<T>(), row + place.at, place.n);
}

// softmax of m columns that stay in cache: maxima, exponentials and their sums, results.
template <class T>
HWY_NOINLINE void SoftmaxDense(int64_t rows, int64_t m, const char* in, int64_t in_stride, char* out,
                               int64_t out_stride) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kWidth = kWidthOf<T>;
  HWY_ALIGN T max[kColumnChunk], sum[kColumnChunk];
  for (int64_t k = 0; k < m; k += kWidth) {
    hn::Store(hn::Set(d, std::numeric_limits<T>::lowest()), d, max + k);
    hn::Store(hn::Zero(d), d, sum + k);
  }
  const auto x = [&](int64_t i) HWY_ATTR { return reinterpret_cast<const T*>(in + i * in_stride); };
  const auto y = [&](int64_t i) HWY_ATTR { return reinterpret_cast<T*>(out + i * out_stride); };
  WalkColumns<T>(rows, m, [&](auto place, int64_t i, int64_t end) HWY_ATTR {
    auto most = hn::Load(d, max + place.at);
    for (; i < end; ++i) most = hn::Max(most, place(x(i)));
    hn::Store(most, d, max + place.at);
  });
  WalkColumns<T>(rows, m, [&](auto place, int64_t i, int64_t end) HWY_ATTR {
    const auto most = hn::Load(d, max + place.at);
    auto more = hn::Zero(d);
    for (; i < end; ++i) {
      const auto e = ExpBelow0(d, hn::Sub(place(x(i)), most));
      more = hn::Add(more, e);
      Put(place, e, y(i));
    }
    hn::Store(hn::Add(hn::Load(d, sum + place.at), more), d, sum + place.at);
  });
  for (int64_t k = 0; k < m; k += kWidth) hn::Store(hn::Div(hn::Set(d, T{1}), hn::Load(d, sum + k)), d, sum + k);
  WalkColumns<T>(rows, m, [&](auto place, int64_t i, int64_t end) HWY_ATTR {
    const auto scale = hn::Load(d, sum + place.at);
    for (; i < end; ++i) Put(place, hn::Mul(place(y(i)), scale), y(i));
  });
}

// Lines side by side: whole rows are read twice, for the maxima and sums and for the results, and so are exponentials
// taken, unless they stay in cache.
template <class T>
void SoftmaxColumns(bool log, bool stream, const Columns& c) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kWidth = kWidthOf<T>;
  const int64_t fit = kColumnBytes / static_cast<int64_t>(sizeof(T)) / c.rows / kWidth * kWidth;
  const bool dense = !log && !stream && fit >= kFewColumns;
  const int64_t chunk = dense ? HWY_MIN(fit, kColumnChunk) : kColumnChunk;
  HWY_ALIGN T max[kColumnChunk], sum[kColumnChunk];
  for (int64_t j = 0; j < c.cols; j += chunk) {
    const int64_t m = HWY_MIN(chunk, c.cols - j), begin = j * static_cast<int64_t>(sizeof(T));
    const char* const in = c.in + begin;
    if (dense) {
      SoftmaxDense<T>(c.rows, m, in, c.in_stride, c.out + begin, c.out_stride);
      continue;
    }
    SumExpOfColumns(c.rows, m, in, c.in_stride, max, sum);
    for (int64_t k = 0; k < m; k += kWidth) {
      const auto s = hn::Load(d, sum + k);
      hn::Store(log ? math::Log(d, s) : hn::Div(hn::Set(d, T{1}), s), d, sum + k);
    }
    for (int64_t i = 0; i < c.rows; ++i) {
      const T* const x = reinterpret_cast<const T*>(in + i * c.in_stride);
      const T* const next = reinterpret_cast<const T*>(in + (i + 1) * c.in_stride);
      T* const y = reinterpret_cast<T*>(c.out + i * c.out_stride) + j;
      const auto shifted = [&](auto load) HWY_ATTR {
        if (stream) __builtin_prefetch(next + load.at, 0, 2);
        return hn::Sub(load(x), load(max));
      };
      if (log) {
        FillRow(y, m, stream, [&](auto load) HWY_ATTR { return hn::Sub(shifted(load), load(sum)); });
      } else {
        FillRow(y, m, stream, [&](auto load) HWY_ATTR { return hn::Mul(ExpBelow0(d, shifted(load)), load(sum)); });
      }
    }
  }
  if (stream) stream_fence();
}

// Lines 0: grad_in, 1: grad, 2: out.
template <bool kLog, class T>
void BackwardLine(T* dx, const T* g, const T* y, int64_t n, bool stream) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kWidth = kWidthOf<T>;
  const auto term = [&](auto load) HWY_ATTR {
    if constexpr (kLog)
      return load(g);
    else
      return hn::Mul(load(g), load(y));
  };
  double total = 0;
  for (int64_t b = 0; b < n; b += kSumBlock) {
    const int64_t end = HWY_MIN(n, b + kSumBlock);
    auto s0 = hn::Zero(d), s1 = s0;
    int64_t i = b;
    for (; i + 2 * kWidth <= end; i += 2 * kWidth) {
      for (int64_t k = 0; stream && k < 2 * kWidth; k += kWidth) {
        request_ahead(g + i + k, kRequestFarAhead);
        request_ahead(y + i + k, kRequestFarAhead);
      }
      s0 = hn::Add(s0, term(Whole<T>{i}));
      s1 = hn::Add(s1, term(Whole<T>{i + kWidth}));
    }
    if (i + kWidth <= end) s0 = hn::Add(s0, term(Whole<T>{i})), i += kWidth;
    if (i < end) s1 = hn::Add(s1, term(First<T>{i, end - i}));
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1))));
  }
  const auto sum = hn::Set(d, static_cast<T>(total));
  FillRow(dx, n, stream, [&](auto load) HWY_ATTR {
    if constexpr (kLog)
      return hn::Sub(load(g), hn::Mul(ExpBelow0(d, load(y)), sum));
    else
      return hn::Mul(load(y), hn::Sub(load(g), sum));
  });
}
template <class T>
void BackwardLines(bool log, bool stream, const Lines& lines, int64_t n) {
  for (int64_t r = 0; r < lines.rows; ++r) {
    (log ? BackwardLine<true, T> : BackwardLine<false, T>)(lines.row<T>(0, r), lines.row<T>(1, r), lines.row<T>(2, r),
                                                           n, stream);
  }
  if (stream) stream_fence();
}

}  // namespace

void Softmax(bool is_double, bool log, bool stream, const Lines& lines, int64_t n) {
  (is_double ? SoftmaxLines<double> : SoftmaxLines<float>)(log, stream, lines, n);
}
void SoftmaxDown(bool is_double, bool log, bool stream, const Columns& c) {
  (is_double ? SoftmaxColumns<double> : SoftmaxColumns<float>)(log, stream, c);
}
void SoftmaxBackward(bool is_double, bool log, bool stream, const Lines& lines, int64_t n) {
  (is_double ? BackwardLines<double> : BackwardLines<float>)(log, stream, lines, n);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {
TESSERA_SIMD_TABLE(Softmax);
TESSERA_SIMD_TABLE(SoftmaxDown);
TESSERA_SIMD_TABLE(SoftmaxBackward);

// The dtype of the arithmetic: float32 for the reduced floats.
DType arithmetic_dtype(const char* name, DType t) {
  TESSERA_CHECK_NOT_IMPLEMENTED(is_floating_point(t) && !is_float8(t), '"', name, "\" not implemented for '",
                                type_name_of(t), "'");
  return t == DType::kFloat64 ? t : DType::kFloat32;
}

// Whether results of `dtype` go past the caches: `operands` tensors of this shape are read or written, the result along
// dense lines.
bool streams(std::span<const int64_t> shape, int dim, DType dtype, int operands, const Operand& out) {
  int64_t bytes = operands * item_size(dtype);
  for (int64_t s : shape) bytes *= s;
  return bytes >= kStreamBytes && out.dtype == dtype && (dim < 0 || out.strides[dim] == item_size(dtype));
}
}  // namespace

void run_softmax(bool log, std::span<const int64_t> shape, int dim, const Operand& out, const Operand& in) {
  const DType t = arithmetic_dtype(log ? "log_softmax_lastdim_kernel_impl" : "softmax_lastdim_kernel_impl",
                                   in.dtype == DType::kFloat64 || !is_floating_point(in.dtype) ? in.dtype : out.dtype);
  const int64_t n = shape.empty() ? 1 : shape[dim];
  if (n == 0) return;
  // Sums of very long columns would lose digits in float32: those go through lines.
  const auto down = TESSERA_SIMD(SoftmaxDown);
  const bool stream_columns = streams(shape, -1, t, 2, out);
  if (n <= 131072 && run_columns(shape, dim, t, out, in, 16384,
                                 [&](const Columns& c) { down(t == DType::kFloat64, log, stream_columns, c); }))
    return;
  const LineOperand operands[2] = {{out, t, n, true}, {in, t, n, false}};
  const auto kernel = TESSERA_SIMD(Softmax);
  const bool stream = !shape.empty() && streams(shape, dim, t, 2, out);
  run_lines(shape, dim, operands, [&](const Lines& lines) { kernel(t == DType::kFloat64, log, stream, lines, n); });
}

void run_masked_softmax(bool log, std::span<const int64_t> shape, int dim, const Operand& out, const Operand& in,
                        const Operand& mask) {
  const DType t = arithmetic_dtype(log ? "log_softmax" : "softmax", in.dtype);
  const int64_t n = shape.empty() ? 1 : shape[dim], size = item_size(t);
  if (n == 0) return;
  constexpr int64_t kFilled = 16384;  // elements that are brought to cache with -inf in the place of others
  const auto fill = [t, size](int64_t rows, int64_t n, const char* x, int64_t x_stride, const char* m, int64_t m_stride,
                              int64_t m_step, char* filled) {
    constexpr int64_t kNowhere[2] = {};
    double least = -std::numeric_limits<double>::infinity();
    const int64_t block[2] = {rows, n}, dense[2] = {n * size, size}, xs[2] = {x_stride, size},
                  ms[2] = {m_stride, m_step};
    const Operand to{filled, t, dense};
    const Operand ins[3] = {
        {const_cast<char*>(m), DType::kBool, ms}, {const_cast<char*>(x), t, xs}, {&least, DType::kFloat64, kNowhere}};
    run_pointwise(pw::where, t, block, {&to, 1}, ins, nullptr);
  };
  const auto down = TESSERA_SIMD(SoftmaxDown);
  const auto columns_done = [&](const Columns& c) {
    const int64_t most = std::clamp<int64_t>(8 * kFilled / c.rows / 16 * 16, 64, c.cols + 64);
    const internal::Scratch filled(static_cast<size_t>(c.rows * std::min(most, c.cols) * size));
    for (int64_t j = 0; j < c.cols; j += most) {
      const int64_t m = std::min(most, c.cols - j);
      fill(c.rows, m, c.in + j * size, c.in_stride, c.mask + j * c.mask_step, c.mask_stride, c.mask_step,
           filled.as<char>());
      down(t == DType::kFloat64, log, false,
           {c.rows, m, filled.as<char>(), c.out + j * size, m * size, c.out_stride, nullptr, 0, 0});
    }
  };
  if (n <= 131072 && run_columns(shape, dim, t, out, in, 16384, columns_done, &mask)) return;
  const LineOperand operands[3] = {{out, t, n, true}, {mask, DType::kBool, n, false}, {in, t, n, false}};
  const auto kernel = TESSERA_SIMD(Softmax);
  const bool stream = !shape.empty() && streams(shape, dim, t, 2, out);
  const auto lines_done = [&](const Lines& lines) {
    const internal::Scratch filled(static_cast<size_t>(lines.rows * n * size));
    fill(lines.rows, n, lines.data[2], lines.row_stride[2], lines.data[1], lines.row_stride[1], 1, filled.as<char>());
    kernel(t == DType::kFloat64, log, stream,
           {lines.rows, {lines.data[0], filled.as<char>()}, {lines.row_stride[0], n * size}}, n);
  };
  run_lines(shape, dim, operands, lines_done, std::clamp<int64_t>(kFilled / n, 1, 256));
}

void run_softmax_backward(bool log, std::span<const int64_t> shape, int dim, const Operand& grad_in,
                          const Operand& grad, const Operand& out) {
  const DType t = arithmetic_dtype(log ? "log_softmax_backward" : "softmax_backward", out.dtype);
  const int64_t n = shape.empty() ? 1 : shape[dim];
  if (n == 0) return;
  const LineOperand operands[3] = {{grad_in, t, n, true}, {grad, t, n, false}, {out, t, n, false}};
  const auto kernel = TESSERA_SIMD(SoftmaxBackward);
  const bool stream = !shape.empty() && streams(shape, dim, t, 3, grad_in);
  run_lines(shape, dim, operands, [&](const Lines& lines) { kernel(t == DType::kFloat64, log, stream, lines, n); });
}

}  // namespace tessera::cpu
#endif
