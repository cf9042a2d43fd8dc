// softmax and log_softmax, forward and backward, over dense lines in Highway.
#include <cmath>
#include <cstring>
#include <limits>

#include "tensor/core/error.h"
#include "tensor/cpu/lines.h"
#include "tensor/cpu/reduce.h"
#include "tensor/cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/softmax.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kBlock = 1024;  // elements summed in the element type before the sum goes to float64
constexpr int64_t kShort = 16;    // lines up to this length are done side by side, one per lane

// Up to kWidth elements, the rest of the vector filled with `pad`.
template <class D, class T>
HWY_INLINE hn::Vec<D> LoadTail(D d, const T* p, int64_t n, T pad) {
  HWY_ALIGN T buffer[HWY_LANES(T)];
  for (int64_t j = 0; j < static_cast<int64_t>(HWY_LANES(T)); ++j) buffer[j] = j < n ? p[j] : pad;
  return hn::Load(d, buffer);
}
template <class D, class T>
HWY_INLINE void StoreTail(hn::Vec<D> v, D d, T* p, int64_t n) {
  HWY_ALIGN T buffer[HWY_LANES(T)];
  hn::Store(v, d, buffer);
  for (int64_t j = 0; j < n; ++j) p[j] = buffer[j];
}
template <class T, class D>
HWY_INLINE T SumLanes(D d, hn::Vec<D> v) {
  HWY_ALIGN T lanes[HWY_LANES(T)];
  hn::Store(v, d, lanes);
  for (int64_t m = HWY_LANES(T) / 2; m >= 1; m /= 2) {
    for (int64_t j = 0; j < m; ++j) lanes[j] += lanes[j + m];
  }
  return lanes[0];
}

// NaN if there is one.
template <class T>
HWY_INLINE T MaxOf(const T* HWY_RESTRICT x, int64_t n) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kWidth = HWY_LANES(T);
  const T lowest = -std::numeric_limits<T>::infinity();
  auto m0 = hn::Set(d, lowest), m1 = m0;
  // A NaN once held stays.
  auto max = [](auto m, auto v) HWY_ATTR { return hn::IfThenElse(hn::Or(hn::Ge(m, v), hn::IsNaN(m)), m, v); };
  int64_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) {
    m0 = max(m0, hn::LoadU(d, x + i));
    m1 = max(m1, hn::LoadU(d, x + i + kWidth));
  }
  for (; i < n; i += kWidth) m0 = max(m0, LoadTail(d, x + i, HWY_MIN(kWidth, n - i), lowest));
  HWY_ALIGN T lanes[kWidth];
  hn::Store(max(m0, m1), d, lanes);
  T m = lanes[0];
  for (int64_t j = 1; j < kWidth; ++j) m = m >= lanes[j] || m != m ? m : lanes[j];
  return m;
}

// sum exp(x - max); the terms go to y if kStore.
template <bool kStore, class T>
HWY_INLINE double SumExp(const T* x, T* y, int64_t n, T max) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kWidth = HWY_LANES(T);
  const auto m = hn::Set(d, max);
  double total = 0;
  for (int64_t b = 0; b < n; b += kBlock) {
    const int64_t end = HWY_MIN(n, b + kBlock);
    auto s0 = hn::Zero(d), s1 = s0;
    int64_t i = b;
    for (; i + 2 * kWidth <= end; i += 2 * kWidth) {
      const auto e0 = hn::Exp(d, hn::Sub(hn::LoadU(d, x + i), m));
      const auto e1 = hn::Exp(d, hn::Sub(hn::LoadU(d, x + i + kWidth), m));
      if (kStore) {
        hn::StoreU(e0, d, y + i);
        hn::StoreU(e1, d, y + i + kWidth);
      }
      s0 = hn::Add(s0, e0);
      s1 = hn::Add(s1, e1);
    }
    for (; i < end; i += kWidth) {
      const int64_t left = HWY_MIN(kWidth, end - i);
      const auto e = hn::Exp(d, hn::Sub(LoadTail(d, x + i, left, -std::numeric_limits<T>::infinity()), m));
      if (kStore) StoreTail(e, d, y + i, left);
      s0 = hn::Add(s0, e);
    }
    total += static_cast<double>(SumLanes<T>(d, hn::Add(s0, s1)));
  }
  return total;
}

template <class T>
HWY_INLINE void SoftmaxLine(bool log, const T* x, T* y, int64_t n) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kWidth = HWY_LANES(T);
  const T max = MaxOf(x, n);
  if (!std::isfinite(max)) {  // NaN or infinite: inf - inf
    for (int64_t i = 0; i < n; ++i) y[i] = std::numeric_limits<T>::quiet_NaN();
    return;
  }
  int64_t i = 0;
  if (log) {
    const auto m = hn::Set(d, max), l = hn::Set(d, static_cast<T>(std::log(SumExp<false>(x, y, n, max))));
    for (; i + kWidth <= n; i += kWidth) hn::StoreU(hn::Sub(hn::Sub(hn::LoadU(d, x + i), m), l), d, y + i);
    if (i < n) StoreTail(hn::Sub(hn::Sub(LoadTail(d, x + i, n - i, T{0}), m), l), d, y + i, n - i);
  } else {
    const auto scale = hn::Set(d, static_cast<T>(1 / SumExp<true>(x, y, n, max)));
    for (; i + kWidth <= n; i += kWidth) hn::StoreU(hn::Mul(hn::LoadU(d, y + i), scale), d, y + i);
    if (i < n) StoreTail(hn::Mul(LoadTail(d, y + i, n - i, T{0}), scale), d, y + i, n - i);
  }
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
      const auto e = hn::Exp(d, v);
      sum = hn::Add(sum, e);
      hn::Store(log ? v : e, d, x + i * kWidth);
    }
    if (log) {
      const auto l = hn::Add(hn::Log(d, sum), poison);
      for (int64_t i = 0; i < n; ++i) hn::Store(hn::Sub(hn::Load(d, x + i * kWidth), l), d, x + i * kWidth);
    } else {
      for (int64_t i = 0; i < n; ++i) hn::Store(hn::Add(hn::Div(hn::Load(d, x + i * kWidth), sum), poison), d, x + i * kWidth);
    }
    for (int64_t r = 0; r < rows; ++r) {
      T* p = lines.row<T>(0, r0 + r);
      for (int64_t i = 0; i < n; ++i) p[i] = x[i * kWidth + r];
    }
  }
}

template <class T>
HWY_INLINE void SoftmaxLines(bool log, const Lines& lines, int64_t n) {
  if (n <= kShort) return SoftmaxShort<T>(log, lines, n);
  for (int64_t r = 0; r < lines.rows; ++r) SoftmaxLine<T>(log, lines.row<T>(1, r), lines.row<T>(0, r), n);
}

// Lines side by side: a few vectors of columns at a time, three walks down the rows.
template <class T>
HWY_INLINE void SoftmaxColumns(bool log, const Columns& c) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kWidth = HWY_LANES(T);
  constexpr int64_t kChunk = 8 * kWidth;
  HWY_ALIGN T max[kChunk], sum[kChunk], x[kChunk] = {}, y[kChunk];
  for (int64_t j = 0; j < c.cols; j += kChunk) {
    const int64_t m = HWY_MIN(kChunk, c.cols - j);
    // Whole chunks are used where they lie; the last one goes through padded copies.
    auto in_row = [&](const char* base, int64_t stride, int64_t i) -> const T* {
      const T* p = reinterpret_cast<const T*>(base + i * stride) + j;
      if (m == kChunk) return p;
      std::memcpy(x, p, m * sizeof(T));
      return x;
    };
    auto out_row = [&](int64_t i) { return m == kChunk ? reinterpret_cast<T*>(c.out + i * c.out_stride) + j : y; };
    auto flush = [&](int64_t i) {
      if (m == kChunk) return;
      std::memcpy(reinterpret_cast<T*>(c.out + i * c.out_stride) + j, y, m * sizeof(T));
    };
    for (int64_t k = 0; k < kChunk; k += kWidth) {
      hn::Store(hn::Set(d, -std::numeric_limits<T>::infinity()), d, max + k);
      hn::Store(hn::Zero(d), d, sum + k);
    }
    for (int64_t i = 0; i < c.rows; ++i) {
      const T* p = in_row(c.in, c.in_stride, i);
      for (int64_t k = 0; k < kChunk; k += kWidth) {
        const auto a = hn::Load(d, max + k), v = hn::LoadU(d, p + k);
        hn::Store(hn::IfThenElse(hn::Or(hn::Ge(a, v), hn::IsNaN(a)), a, v), d, max + k);
      }
    }
    for (int64_t i = 0; i < c.rows; ++i) {
      const T* p = in_row(c.in, c.in_stride, i);
      T* q = out_row(i);
      for (int64_t k = 0; k < kChunk; k += kWidth) {
        const auto v = hn::Sub(hn::LoadU(d, p + k), hn::Load(d, max + k));
        const auto e = hn::Exp(d, v);
        hn::Store(hn::Add(hn::Load(d, sum + k), e), d, sum + k);
        hn::StoreU(log ? v : e, d, q + k);
      }
      flush(i);
    }
    // An infinite or NaN maximum makes the line NaN, as max - max does.
    for (int64_t k = 0; k < kChunk; k += kWidth) {
      const auto a = hn::Load(d, max + k), s = hn::Load(d, sum + k);
      const auto poison = hn::Sub(a, a);
      hn::Store(hn::Add(log ? hn::Log(d, s) : hn::Div(hn::Set(d, T{1}), s), poison), d, sum + k);
    }
    for (int64_t i = 0; i < c.rows; ++i) {
      const T* p = in_row(c.out, c.out_stride, i);
      T* q = out_row(i);
      for (int64_t k = 0; k < kChunk; k += kWidth) {
        const auto v = hn::LoadU(d, p + k), s = hn::Load(d, sum + k);
        hn::StoreU(log ? hn::Sub(v, s) : hn::Mul(v, s), d, q + k);
      }
      flush(i);
    }
  }
}

// Lines 0: grad_in, 1: grad, 2: out.
template <class T>
HWY_INLINE void BackwardLine(bool log, T* dx, const T* g, const T* y, int64_t n) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kWidth = HWY_LANES(T);
  double total = 0;
  for (int64_t b = 0; b < n; b += kBlock) {
    const int64_t end = HWY_MIN(n, b + kBlock);
    auto s = hn::Zero(d);
    int64_t i = b;
    for (; i + kWidth <= end; i += kWidth) {
      const auto v = hn::LoadU(d, g + i);
      s = hn::Add(s, log ? v : hn::Mul(v, hn::LoadU(d, y + i)));
    }
    if (i < end) {
      const auto v = LoadTail(d, g + i, end - i, T{0});
      s = hn::Add(s, log ? v : hn::Mul(v, LoadTail(d, y + i, end - i, T{0})));
    }
    total += static_cast<double>(SumLanes<T>(d, s));
  }
  const auto sum = hn::Set(d, static_cast<T>(total));
  for (int64_t i = 0; i < n; i += kWidth) {
    const int64_t left = n - i;
    const bool whole = left >= kWidth;
    const auto gv = whole ? hn::LoadU(d, g + i) : LoadTail(d, g + i, left, T{0});
    const auto yv = whole ? hn::LoadU(d, y + i) : LoadTail(d, y + i, left, T{0});
    const auto e = hn::IfThenElse(hn::IsNaN(yv), yv, hn::Exp(d, yv));
    const auto r = log ? hn::Sub(gv, hn::Mul(e, sum)) : hn::Mul(yv, hn::Sub(gv, sum));
    if (whole) {
      hn::StoreU(r, d, dx + i);
    } else {
      StoreTail(r, d, dx + i, left);
    }
  }
}
template <class T>
HWY_INLINE void BackwardLines(bool log, const Lines& lines, int64_t n) {
  for (int64_t r = 0; r < lines.rows; ++r) BackwardLine<T>(log, lines.row<T>(0, r), lines.row<T>(1, r), lines.row<T>(2, r), n);
}

}  // namespace

void Softmax(bool is_double, bool log, const Lines& lines, int64_t n) { is_double ? SoftmaxLines<double>(log, lines, n) : SoftmaxLines<float>(log, lines, n); }
void SoftmaxDown(bool is_double, bool log, const Columns& c) { is_double ? SoftmaxColumns<double>(log, c) : SoftmaxColumns<float>(log, c); }
void SoftmaxBackward(bool is_double, bool log, const Lines& lines, int64_t n) { is_double ? BackwardLines<double>(log, lines, n) : BackwardLines<float>(log, lines, n); }

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
  TESSERA_CHECK_NOT_IMPLEMENTED(is_floating_point(t) && !is_float8(t), '"', name, "\" not implemented for '", type_name_of(t), "'");
  return t == DType::kFloat64 ? t : DType::kFloat32;
}
}  // namespace

void run_softmax(bool log, std::span<const int64_t> shape, int dim, const Operand& out, const Operand& in) {
  const DType t = arithmetic_dtype(log ? "log_softmax_lastdim_kernel_impl" : "softmax_lastdim_kernel_impl", in.dtype == DType::kFloat64 || !is_floating_point(in.dtype) ? in.dtype : out.dtype);
  const int64_t n = shape.empty() ? 1 : shape[dim];
  if (n == 0) return;
  // Sums of long columns would lose digits in float32: those go through lines, whose sums are cut into blocks.
  const auto down = TESSERA_SIMD(SoftmaxDown);
  if (n <= 4096 && run_columns(shape, dim, t, out, in, [&](const Columns& c) { down(t == DType::kFloat64, log, c); })) return;
  const LineOperand operands[2] = {{out, t, n, true}, {in, t, n, false}};
  const auto kernel = TESSERA_SIMD(Softmax);
  run_lines(shape, dim, operands, [&](const Lines& lines) { kernel(t == DType::kFloat64, log, lines, n); });
}

void run_softmax_backward(bool log, std::span<const int64_t> shape, int dim, const Operand& grad_in, const Operand& grad, const Operand& out) {
  const DType t = arithmetic_dtype(log ? "log_softmax_backward" : "softmax_backward", out.dtype);
  const int64_t n = shape.empty() ? 1 : shape[dim];
  if (n == 0) return;
  const LineOperand operands[3] = {{grad_in, t, n, true}, {grad, t, n, false}, {out, t, n, false}};
  const auto kernel = TESSERA_SIMD(SoftmaxBackward);
  run_lines(shape, dim, operands, [&](const Lines& lines) { kernel(t == DType::kFloat64, log, lines, n); });
}

}  // namespace tessera::cpu
#endif
