// Recurrent layers: a matrix product and one pass over the gates at each step.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/rnn.cc"
#include <algorithm>
#include <type_traits>

#include "hwy/foreach_target.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/gemm/gemm.h"
#include "tensor/cpu/support/integer.h"
#include "tensor/cpu/math/math-inl.h"
#include "tensor/cpu/support/request.h"
#include "nn/cpu/rnn.h"
#include "nn/cpu/rnn_rows.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using internal::BackRows;
using internal::Rows;

// Memory of a whole vector, and of the rest of a row.
struct Whole {
  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, const hn::TFromD<D>* p) const {
    return hn::LoadU(d, p);
  }
  template <class D>
  HWY_INLINE void store(D d, hn::Vec<D> v, hn::TFromD<D>* p) const {
    hn::StoreU(v, d, p);
  }
};
struct Rest {
  size_t n;
#if HWY_TARGET == HWY_SSE4  // no masked loads: the plain ones would read beyond the end
  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, const hn::TFromD<D>* p) const {
    return HWY_LIKELY(n == hn::Lanes(d)) ? hn::LoadU(d, p) : few(d, p);
  }
  template <class D>
  HWY_INLINE void store(D d, hn::Vec<D> v, hn::TFromD<D>* p) const {
    HWY_LIKELY(n == hn::Lanes(d)) ? hn::StoreU(v, d, p) : few(d, v, p);
  }
  template <class D>
  HWY_NOINLINE hn::Vec<D> few(D d, const hn::TFromD<D>* p) const {
    HWY_ALIGN hn::TFromD<D> buffer[hn::MaxLanes(d)] = {};
    std::copy_n(p, n, buffer);
    return hn::Load(d, buffer);
  }
  template <class D>
  HWY_NOINLINE void few(D d, hn::Vec<D> v, hn::TFromD<D>* p) const {
    HWY_ALIGN hn::TFromD<D> buffer[hn::MaxLanes(d)];
    hn::Store(v, d, buffer);
    std::copy_n(buffer, n, p);
  }
#else
  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, const hn::TFromD<D>* p) const {
    return hn::MaskedLoad(hn::FirstN(d, n), d, p);
  }
  template <class D>
  HWY_INLINE void store(D d, hn::Vec<D> v, hn::TFromD<D>* p) const {
    hn::BlendedStore(v, hn::FirstN(d, n), d, p);
  }
#endif
};
template <class D, class F>
HWY_INLINE void over_row(D d, int64_t n, F f) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  if constexpr (HWY_TARGET != HWY_SSE4)  // code for rests is large there: one copy of it does for all
    for (; j + lanes <= n; j += lanes) f(j, Whole());
  for (; j < n; j += lanes) f(j, Rest{static_cast<size_t>(std::min(lanes, n - j))});
}

// ---- Products with a packed weight ----

// Rows and vectors of a tile that stays in registers: 32 hold four vectors of sums for each row, 16 hold two.
constexpr int kTileRows = 6, kTileVecs = HWY_TARGET <= HWY_AVX3 ? 4 : 2;
constexpr int64_t kAhead = 8;  // rows of a panel that are requested before they are needed

// out[r] (+)= sum_k a[r * a_row + k] panel[k], rows of kTileVecs vectors.
template <int kRows, class T>
HWY_NOINLINE void Tile(int64_t depth, const T* HWY_RESTRICT a, int64_t a_row, const T* HWY_RESTRICT panel, bool add,
                       T* HWY_RESTRICT out, int64_t out_row) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int kVecs = kTileVecs;
  constexpr int64_t kLanes = HWY_MAX_BYTES / sizeof(T), kWidth = kVecs * kLanes;
  V sum[kRows][kVecs];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) sum[r][v] = hn::Zero(d);
  const T* second = a + 3 * a_row;  // the other rows are in reach of an addressing mode
  for (int64_t k = depth; k > 0; --k) {
    V x[kVecs];
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      x[v] = hn::LoadU(d, panel + v * kLanes);
      if (v * HWY_MAX_BYTES % 64 == 0) hwy::Prefetch(panel + kAhead * kWidth + v * kLanes);
    }
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const V y = hn::Set(d, r < 3 ? a[r * a_row] : second[(r - 3) * a_row]);
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) sum[r][v] = hn::MulAdd(y, x[v], sum[r][v]);
    }
    ++a;
    ++second;
    panel += kWidth;
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r, out += out_row)
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v)
      hn::StoreU(add ? hn::Add(hn::LoadU(d, out + v * kLanes), sum[r][v]) : sum[r][v], d, out + v * kLanes);
}

// c (+)= a panel, `columns` of it; rows of a lie depth apart.
template <class T>
void multiply_panel(int64_t rows, int64_t columns, int64_t depth, const T* a, const T* panel, bool add, T* c,
                    int64_t c_row) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kWidth = kTileVecs * (HWY_MAX_BYTES / sizeof(T));
  HWY_ALIGN T room[kTileRows * kWidth];
  const bool whole = columns == kWidth;
  for (int64_t i = 0; i < rows;) {
    const int64_t rest = rows - i, n = rest >= kTileRows && rest != 8 ? kTileRows : rest >= 4 ? 4 : rest >= 2 ? 2 : 1;
    const T* const from = a + i * depth;
    T *const to = c + i * c_row, *const out = whole ? to : room;
    const int64_t out_row = whole ? c_row : kWidth;
    if (n == kTileRows)
      Tile<kTileRows>(depth, from, depth, panel, add && whole, out, out_row);
    else if (n == 4)
      Tile<4>(depth, from, depth, panel, add && whole, out, out_row);
    else if (n == 2)
      Tile<2>(depth, from, depth, panel, add && whole, out, out_row);
    else
      Tile<1>(depth, from, depth, panel, add && whole, out, out_row);
    for (int64_t r = 0; r < n && !whole; ++r)
      over_row(d, columns, [&](int64_t j, auto m) HWY_ATTR {
        const auto x = m.load(d, room + r * kWidth + j);
        m.store(d, add ? hn::Add(m.load(d, to + r * c_row + j), x) : x, to + r * c_row + j);
      });
    i += n;
  }
}

// ---- The gates ----

template <class D, class V>
HWY_INLINE V Logistic(D d, V x) {
  const V one = hn::Set(d, 1);
  return hn::Div(one, hn::Add(one, math::Exp(d, hn::Neg(x))));
}
template <class D, class V>
HWY_INLINE V LogisticSlope(D d, V y) {
  return hn::Mul(y, hn::Sub(hn::Set(d, 1), y));
}
template <class D, class V>
HWY_INLINE V TanhSlope(D d, V y) {
  return hn::NegMulAdd(y, y, hn::Set(d, 1));
}

// What a gate gets from the state.
template <class D, class M, class T>
HWY_INLINE hn::Vec<D> FromState(D d, M m, const Rows<T>& r, int64_t at) {
  const auto x = m.load(d, r.from_state + at);
  return r.bias ? hn::Add(m.load(d, r.bias + at), x) : x;
}
template <class D, class M, class T>
HWY_INLINE hn::Vec<D> Gate(D d, M m, const Rows<T>& r, int64_t at) {
  return hn::Add(m.load(d, r.projected + at), FromState(d, m, r, at));
}

// Units from j on of the gates of a row that comes next: rows are often in pages of their own, and the processor does
// not see them coming.
template <int kGates, class T, class M>
HWY_INLINE void RequestGates(M, const T* row, int64_t hidden, int64_t j) {
  if constexpr (std::is_same_v<M, Whole>) {
#pragma GCC unroll 4
    for (int g = 0; g < kGates; ++g) request_ahead(row + g * hidden + j, 0);
  }
}

// One row: r's pointers are at its beginning.
template <class T>
void LstmRow(const Rows<T>& r) {
  const hn::ScalableTag<T> d;
  const int64_t n = r.hidden;
  over_row(d, n, [&](int64_t j, auto m) HWY_ATTR {
    RequestGates<4>(m, r.projected + r.gates, n, j);
    RequestGates<4>(m, r.values + r.values_row, n, j);
    const auto in = Logistic(d, Gate(d, m, r, j)), forget = Logistic(d, Gate(d, m, r, n + j));
    const auto candidate = math::Tanh(d, Gate(d, m, r, 2 * n + j)), out = Logistic(d, Gate(d, m, r, 3 * n + j));
    const auto c = hn::MulAdd(forget, m.load(d, r.c_before + j), hn::Mul(in, candidate));
    m.store(d, in, r.values + j);
    m.store(d, forget, r.values + n + j);
    m.store(d, candidate, r.values + 2 * n + j);
    m.store(d, out, r.values + 3 * n + j);
    m.store(d, c, r.extra + j);
    m.store(d, hn::Mul(out, math::Tanh(d, c)), r.h + j);
  });
}
template <class T>
void GruRow(const Rows<T>& r) {
  const hn::ScalableTag<T> d;
  const int64_t n = r.hidden;
  over_row(d, n, [&](int64_t j, auto m) HWY_ATTR {
    RequestGates<3>(m, r.projected + r.gates, n, j);
    RequestGates<3>(m, r.values + r.values_row, n, j);
    const auto reset = Logistic(d, Gate(d, m, r, j)), update = Logistic(d, Gate(d, m, r, n + j)),
               recurrent = FromState(d, m, r, 2 * n + j);
    const auto candidate = math::Tanh(d, hn::MulAdd(reset, recurrent, m.load(d, r.projected + 2 * n + j)));
    m.store(d, reset, r.values + j);
    m.store(d, update, r.values + n + j);
    m.store(d, candidate, r.values + 2 * n + j);
    m.store(d, recurrent, r.extra + j);
    m.store(d, hn::MulAdd(hn::Sub(m.load(d, r.h_before + j), candidate), update, candidate), r.h + j);
  });
}
template <class T, bool kTanh>
void PlainRow(const Rows<T>& r) {
  const hn::ScalableTag<T> d;
  over_row(d, r.hidden, [&](int64_t j, auto m) HWY_ATTR {
    RequestGates<1>(m, r.projected + r.gates, r.hidden, j);
    RequestGates<1>(m, r.values + r.values_row, r.hidden, j);
    const auto x = Gate(d, m, r, j);
    m.store(d, x, r.values + j);
    if constexpr (kTanh)
      m.store(d, math::Tanh(d, x), r.h + j);
    else
      m.store(d, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x), r.h + j);  // keeps NaN
  });
}

template <class D, class M, class T>
HWY_INLINE hn::Vec<D> GradState(D d, M m, const BackRows<T>& r, int64_t j) {
  const auto grad = m.load(d, r.grad_h + j);
  return r.grad_output ? hn::Add(grad, m.load(d, r.grad_output + j)) : grad;
}
template <class T>
void LstmBackRow(const BackRows<T>& r) {
  const hn::ScalableTag<T> d;
  const int64_t n = r.hidden;
  over_row(d, r.hidden, [&](int64_t j, auto m) HWY_ATTR {
    RequestGates<4>(m, r.values + r.gates, n, j);
    RequestGates<4>(m, r.grad_gates + r.gates, n, j);
    const auto in = m.load(d, r.values + j), forget = m.load(d, r.values + n + j),
               candidate = m.load(d, r.values + 2 * n + j), out = m.load(d, r.values + 3 * n + j);
    const auto squashed = math::Tanh(d, m.load(d, r.extra + j)), grad_h = GradState(d, m, r, j);
    const auto grad_c = hn::MulAdd(hn::Mul(grad_h, out), TanhSlope(d, squashed), m.load(d, r.grad_c + j));
    m.store(d, hn::Mul(hn::Mul(grad_c, candidate), LogisticSlope(d, in)), r.grad_gates + j);
    m.store(d, hn::Mul(hn::Mul(grad_c, m.load(d, r.c_before + j)), LogisticSlope(d, forget)), r.grad_gates + n + j);
    m.store(d, hn::Mul(hn::Mul(grad_c, in), TanhSlope(d, candidate)), r.grad_gates + 2 * n + j);
    m.store(d, hn::Mul(hn::Mul(grad_h, squashed), LogisticSlope(d, out)), r.grad_gates + 3 * n + j);
    m.store(d, hn::Mul(grad_c, forget), r.grad_c + j);
  });
}
template <class T>
void GruBackRow(const BackRows<T>& r) {
  const hn::ScalableTag<T> d;
  const int64_t n = r.hidden;
  over_row(d, r.hidden, [&](int64_t j, auto m) HWY_ATTR {
    RequestGates<3>(m, r.values + r.gates, n, j);
    RequestGates<3>(m, r.grad_gates + r.gates, n, j);
    RequestGates<3>(m, r.grad_hidden + r.gates, n, j);
    const auto reset = m.load(d, r.values + j), update = m.load(d, r.values + n + j),
               candidate = m.load(d, r.values + 2 * n + j), grad_h = GradState(d, m, r, j);
    const auto grad_candidate = hn::Mul(hn::Mul(grad_h, hn::Sub(hn::Set(d, 1), update)), TanhSlope(d, candidate));
    const auto grad_reset = hn::Mul(hn::Mul(grad_candidate, m.load(d, r.extra + j)), LogisticSlope(d, reset));
    const auto grad_update =
        hn::Mul(hn::Mul(grad_h, hn::Sub(m.load(d, r.h_before + j), candidate)), LogisticSlope(d, update));
    m.store(d, grad_reset, r.grad_gates + j);
    m.store(d, grad_update, r.grad_gates + n + j);
    m.store(d, grad_candidate, r.grad_gates + 2 * n + j);
    m.store(d, grad_reset, r.grad_hidden + j);
    m.store(d, grad_update, r.grad_hidden + n + j);
    m.store(d, hn::Mul(grad_candidate, reset), r.grad_hidden + 2 * n + j);
    m.store(d, hn::Mul(grad_h, update), r.grad_h + j);
  });
}
template <class T, bool kTanh>
void PlainBackRow(const BackRows<T>& r) {
  const hn::ScalableTag<T> d;
  over_row(d, r.hidden, [&](int64_t j, auto m) HWY_ATTR {
    RequestGates<1>(m, r.grad_gates + r.gates, r.hidden, j);
    const auto h = m.load(d, r.h + j), grad_h = GradState(d, m, r, j);
    if constexpr (kTanh)
      m.store(d, hn::Mul(grad_h, TanhSlope(d, h)), r.grad_gates + j);
    else
      m.store(d, hn::IfThenElseZero(hn::Gt(h, hn::Zero(d)), grad_h), r.grad_gates + j);
  });
}

template <class P>
void advance(P*& p, int64_t n) {
  p = p ? p + n : p;
}
template <class T>
void rows_of(RnnKind kind, Rows<T> r) {
  for (int64_t i = 0; i < r.rows; ++i) {
    switch (kind) {
      case RnnKind::kLstm:
        LstmRow(r);
        break;
      case RnnKind::kGru:
        GruRow(r);
        break;
      case RnnKind::kTanh:
        PlainRow<T, true>(r);
        break;
      case RnnKind::kRelu:
        PlainRow<T, false>(r);
        break;
    }
    advance(r.from_state, r.state_row);
    advance(r.projected, r.gates);
    advance(r.values, r.values_row);
    advance(r.h_before, r.hidden);
    advance(r.c_before, r.hidden);
    advance(r.h, r.hidden);
    advance(r.extra, r.hidden);
  }
}
template <class T>
void back_rows_of(RnnKind kind, BackRows<T> r) {
  for (int64_t i = 0; i < r.rows; ++i) {
    switch (kind) {
      case RnnKind::kLstm:
        LstmBackRow(r);
        break;
      case RnnKind::kGru:
        GruBackRow(r);
        break;
      case RnnKind::kTanh:
        PlainBackRow<T, true>(r);
        break;
      case RnnKind::kRelu:
        PlainBackRow<T, false>(r);
        break;
    }
    for (const T** p : {&r.values, const_cast<const T**>(&r.grad_gates), const_cast<const T**>(&r.grad_hidden)})
      advance(*p, r.gates);
    for (const T** p : {&r.h_before, &r.c_before, &r.h, &r.extra, &r.grad_output, const_cast<const T**>(&r.grad_h),
                        const_cast<const T**>(&r.grad_c)})
      advance(*p, r.hidden);
  }
}

}  // namespace

int64_t PanelBytes() { return kTileVecs * HWY_MAX_BYTES; }
void MultiplyF32(int64_t rows, int64_t columns, int64_t depth, const float* a, const float* panel, bool add, float* c,
                 int64_t c_row) {
  multiply_panel(rows, columns, depth, a, panel, add, c, c_row);
}
void MultiplyF64(int64_t rows, int64_t columns, int64_t depth, const double* a, const double* panel, bool add,
                 double* c, int64_t c_row) {
  multiply_panel(rows, columns, depth, a, panel, add, c, c_row);
}
void RowsF32(RnnKind kind, const Rows<float>& r) { rows_of(kind, r); }
void RowsF64(RnnKind kind, const Rows<double>& r) { rows_of(kind, r); }
void BackRowsF32(RnnKind kind, const BackRows<float>& r) { back_rows_of(kind, r); }
void BackRowsF64(RnnKind kind, const BackRows<double>& r) { back_rows_of(kind, r); }

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

using internal::BackRows;
using internal::Rows;
using internal::ScratchArray;
TESSERA_SIMD_TABLE(PanelBytes);
TESSERA_SIMD_TABLE(MultiplyF32);
TESSERA_SIMD_TABLE(MultiplyF64);
TESSERA_SIMD_TABLE(RowsF32);
TESSERA_SIMD_TABLE(RowsF64);
TESSERA_SIMD_TABLE(BackRowsF32);
TESSERA_SIMD_TABLE(BackRowsF64);
void run_rows(RnnKind kind, const Rows<float>& r) { TESSERA_SIMD(RowsF32)(kind, r); }
void run_rows(RnnKind kind, const Rows<double>& r) { TESSERA_SIMD(RowsF64)(kind, r); }
void run_rows(RnnKind kind, const BackRows<float>& r) { TESSERA_SIMD(BackRowsF32)(kind, r); }
void run_rows(RnnKind kind, const BackRows<double>& r) { TESSERA_SIMD(BackRowsF64)(kind, r); }

template <class T>
void multiply(int64_t rows, int64_t columns, int64_t depth, const T* a, const T* panel, bool add, T* c, int64_t c_row) {
  if constexpr (sizeof(T) == 4)
    TESSERA_SIMD(MultiplyF32)(rows, columns, depth, a, panel, add, c, c_row);
  else
    TESSERA_SIMD(MultiplyF64)(rows, columns, depth, a, panel, add, c, c_row);
}

KernelParam number(double x) {
  KernelParam p;
  p.f = x;
  return p;
}
// c = beta c + a b, dense row-major matrices: a is m x k, b is k x n.
template <class T>
void product(int64_t m, int64_t n, int64_t k, const T* a, const T* b, double beta, T* c) {
  gemm(sizeof(T) == 8 ? DType::kFloat64 : DType::kFloat32, m, n, k, number(1), {const_cast<T*>(a), k, 1},
       {const_cast<T*>(b), n, 1}, number(beta), {c, n, 1});
}

constexpr int64_t kPieceWork = int64_t{1} << 18;   // multiplications worth a piece of their own
constexpr int64_t kGroupBytes = int64_t{3} << 19;  // of weights that L2 holds while groups of sequences pass by
constexpr int64_t kRowWork = 64;                   // of a gate, in multiplications
int64_t grain_for(int64_t work) { return std::max<int64_t>(1, kPieceWork / std::max<int64_t>(1, work)); }

// A weight of depth x width that is used at every step, in panels of some columns, the last one filled up with zeros.
template <class T>
class Panels {
 public:
  // Few rows, or few steps, are not worth the copy.
  static bool suit(const RnnLayer& l) { return l.batch >= 4 && l.steps >= 4; }
  Panels(int64_t depth, int64_t width, const T* w)
      : depth_(depth),
        width_(width),
        slice_(TESSERA_SIMD(PanelBytes)() / static_cast<int64_t>(sizeof(T))),
        data_((slices() * depth + kRequested) * slice_) {
    parallel_for(slices(), grain_for(depth * slice_), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t k = 0; k < depth_; ++k)
          std::fill(std::copy_n(w + k * width_ + i * slice_, columns(i), panel(i) + k * slice_),
                    panel(i) + (k + 1) * slice_, T{0});
    });
  }
  int64_t slices() const { return ceil_div(width_, slice_); }
  // Multiplications of a row with a slice.
  int64_t work() const { return depth_ * slice_; }
  // Elements from row to row of a result that is kept apart: not a power of two, whose lines would share few sets of a
  // cache.
  int64_t row() const { return slices() * slice_ + 64 / static_cast<int64_t>(sizeof(T)); }
  // c (+)= a b for `rows` rows of a and a slice of b; c: the whole of a result.
  void multiply(int64_t rows, const T* a, int64_t slice, bool add, T* c, int64_t c_row) const {
    cpu::multiply(rows, columns(slice), depth_, a, panel(slice), add, c + slice * slice_, c_row);
  }

 private:
  static constexpr int64_t kRequested = 8;  // rows behind the last that may be requested
  int64_t columns(int64_t slice) const { return std::min(slice_, width_ - slice * slice_); }
  T* panel(int64_t slice) const { return data_.get() + slice * depth_ * slice_; }
  int64_t depth_, width_, slice_;
  ScratchArray<T> data_;
};

// Sequences do not depend on each other: groups of them are taken through all steps where the weights stay in cache
// meanwhile.
int64_t rows_of_group(const RnnLayer& l) {
  if (l.batch < 16 || l.hidden * l.gates() * item_size(l.dtype) > kGroupBytes) return l.batch;
  return l.batch <= 32 ? ceil_div(l.batch, 2) : 16;
}

// The steps in the order of computation: at(0) is the first.
struct Order {
  int64_t steps;
  bool reverse;
  int64_t at(int64_t s) const { return reverse ? steps - 1 - s : s; }
};

template <class T>
struct Forward {
  const RnnLayer& l;
  const RnnTrace& trace;
  const T *projected, *h0, *c0, *w, *b;
  const Order order{l.steps, l.reverse};
  const int64_t gates = l.gates(), state = l.batch * l.hidden;

  // Where the state before step s begins.
  const T* before(int64_t s, const T* first, void* all) const {
    return s == 0 ? first : static_cast<const T*>(all) + order.at(s - 1) * state;
  }
  // Rows [begin, end) at step s; from_state: of row `begin`.
  void rows(int64_t s, int64_t begin, int64_t end, const T* from_state, int64_t state_row) const {
    const int64_t t = order.at(s), at = begin * l.hidden;
    const ScratchArray<T> unkept(trace.gates ? 0 : gates);
    T* const values = trace.gates ? static_cast<T*>(trace.gates) + (t * l.batch + begin) * gates : unkept.get();
    auto *output = static_cast<T*>(trace.output), *extra = static_cast<T*>(trace.extra);
    run_rows(l.kind, Rows<T>{end - begin, l.hidden, gates, from_state, state_row, b,
                             projected + (t * l.batch + begin) * gates, values, trace.gates ? gates : 0,
                             before(s, h0, output) + at, c0 ? before(s, c0, extra) + at : nullptr,
                             output + t * state + at, extra ? extra + t * state + at : nullptr});
  }
  void slices(const Panels<T>& panels, int64_t s, int64_t begin, int64_t end, int64_t first, int64_t last,
              T* sums) const {
    for (int64_t i = first; i < last; ++i)
      panels.multiply(end - begin, before(s, h0, trace.output) + begin * l.hidden, i, false, sums, panels.row());
  }
  void run_packed() const {
    const Panels<T> panels(l.hidden, gates, w);
    const int64_t group = rows_of_group(l);
    if (group < l.batch)
      return parallel_for(ceil_div(l.batch, group), 1, [&](int64_t first, int64_t last) {
        const int64_t begin = first * group, end = std::min(l.batch, last * group);
        const ScratchArray<T> sums((end - begin) * panels.row());
        for (int64_t s = 0; s < l.steps; ++s) {
          slices(panels, s, begin, end, 0, panels.slices(), sums.get());
          rows(s, begin, end, sums.get(), panels.row());
        }
      });
    const ScratchArray<T> sums(l.batch * panels.row());
    for (int64_t s = 0; s < l.steps; ++s) {
      parallel_for(panels.slices(), grain_for(l.batch * panels.work()),
                   [&](int64_t first, int64_t last) { slices(panels, s, 0, l.batch, first, last, sums.get()); });
      parallel_for(l.batch, grain_for(kRowWork * gates), [&](int64_t begin, int64_t end) {
        rows(s, begin, end, sums.get() + begin * panels.row(), panels.row());
      });
    }
  }
  void run() const {
    if (Panels<T>::suit(l)) return run_packed();
    const ScratchArray<T> sums(l.batch * gates);
    for (int64_t s = 0; s < l.steps; ++s) {
      product(l.batch, gates, l.hidden, before(s, h0, trace.output), w, 0, sums.get());
      parallel_for(l.batch, grain_for(kRowWork * gates),
                   [&](int64_t begin, int64_t end) { rows(s, begin, end, sums.get() + begin * gates, gates); });
    }
  }
};

template <class T>
struct Backward {
  const RnnLayer& l;
  const RnnTrace& trace;
  const T *h0, *c0, *w, *grad_output;
  T *grad_h, *grad_c, *grad_gates, *grad_hidden;
  const Order order{l.steps, l.reverse};
  const int64_t gates = l.gates(), state = l.batch * l.hidden;
  const bool adds = l.kind == RnnKind::kGru;

  void rows(int64_t s, int64_t begin, int64_t end) const {
    const int64_t t = order.at(s), at = begin * l.hidden, row = (t * l.batch + begin) * gates;
    const auto *output = static_cast<const T*>(trace.output), *extra = static_cast<const T*>(trace.extra);
    const T *h = s == 0 ? h0 : output + order.at(s - 1) * state, *c = s == 0 ? c0 : extra + order.at(s - 1) * state;
    run_rows(l.kind,
             BackRows<T>{end - begin, l.hidden, gates, static_cast<const T*>(trace.gates) + row, h + at,
                         c0 ? c + at : nullptr, output + t * state + at, extra ? extra + t * state + at : nullptr,
                         grad_output ? grad_output + t * state + at : nullptr, grad_h + at,
                         grad_c ? grad_c + at : nullptr, grad_gates + row, grad_hidden ? grad_hidden + row : nullptr});
  }
  // What the product of step s takes.
  const T* factor(int64_t s) const { return (grad_hidden ? grad_hidden : grad_gates) + order.at(s) * l.batch * gates; }
  void slices(const Panels<T>& panels, int64_t s, int64_t begin, int64_t end, int64_t first, int64_t last) const {
    for (int64_t i = first; i < last; ++i)
      panels.multiply(end - begin, factor(s) + begin * gates, i, adds, grad_h + begin * l.hidden, l.hidden);
  }
  void run_packed() const {
    const Panels<T> panels(gates, l.hidden, w);
    const int64_t group = rows_of_group(l);
    if (group < l.batch)
      return parallel_for(ceil_div(l.batch, group), 1, [&](int64_t first, int64_t last) {
        const int64_t begin = first * group, end = std::min(l.batch, last * group);
        for (int64_t s = l.steps - 1; s >= 0; --s) {
          rows(s, begin, end);
          slices(panels, s, begin, end, 0, panels.slices());
        }
      });
    for (int64_t s = l.steps - 1; s >= 0; --s) {
      parallel_for(l.batch, grain_for(kRowWork * gates), [&](int64_t begin, int64_t end) { rows(s, begin, end); });
      parallel_for(panels.slices(), grain_for(l.batch * panels.work()),
                   [&](int64_t first, int64_t last) { slices(panels, s, 0, l.batch, first, last); });
    }
  }
  void run() const {
    if (Panels<T>::suit(l)) return run_packed();
    for (int64_t s = l.steps - 1; s >= 0; --s) {
      parallel_for(l.batch, grain_for(kRowWork * gates), [&](int64_t begin, int64_t end) { rows(s, begin, end); });
      product(l.batch, l.hidden, gates, factor(s), w, adds, grad_h);
    }
  }
};

}  // namespace

void rnn_forward(const RnnLayer& layer, const void* projected, const RnnTrace& trace, const void* h0, const void* c0,
                 const void* w_hh_t, const void* b_hh) {
  auto run = [&](auto tag) {
    using T = decltype(tag);
    Forward<T>{layer,
               trace,
               static_cast<const T*>(projected),
               static_cast<const T*>(h0),
               static_cast<const T*>(c0),
               static_cast<const T*>(w_hh_t),
               static_cast<const T*>(b_hh)}
        .run();
  };
  layer.dtype == DType::kFloat64 ? run(double()) : run(float());
}

void rnn_backward(const RnnLayer& layer, const RnnTrace& trace, const void* h0, const void* c0, const void* w_hh,
                  const void* grad_output, void* grad_state, void* grad_cell, void* grad_gates, void* grad_hidden) {
  auto run = [&](auto tag) {
    using T = decltype(tag);
    Backward<T>{layer,
                trace,
                static_cast<const T*>(h0),
                static_cast<const T*>(c0),
                static_cast<const T*>(w_hh),
                static_cast<const T*>(grad_output),
                static_cast<T*>(grad_state),
                static_cast<T*>(grad_cell),
                static_cast<T*>(grad_gates),
                static_cast<T*>(grad_hidden)}
        .run();
  };
  layer.dtype == DType::kFloat64 ? run(double()) : run(float());
}

}  // namespace tessera::cpu
#endif
