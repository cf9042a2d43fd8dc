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

// c (+)= a panel, `columns` of it.
template <class T>
void multiply_panel(int64_t rows, int64_t columns, int64_t depth, const T* a, int64_t a_row, const T* panel, bool add,
                    T* c, int64_t c_row) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kWidth = kTileVecs * (HWY_MAX_BYTES / sizeof(T));
  HWY_ALIGN T room[kTileRows * kWidth];
  const bool whole = columns == kWidth;
  for (int64_t i = 0; i < rows;) {
    const int64_t rest = rows - i, n = rest >= kTileRows && rest != 8 ? kTileRows : rest >= 4 ? 4 : rest >= 2 ? 2 : 1;
    const T* const from = a + i * a_row;
    T *const to = c + i * c_row, *const out = whole ? to : room;
    const int64_t out_row = whole ? c_row : kWidth;
    if (n == kTileRows)
      Tile<kTileRows>(depth, from, a_row, panel, add && whole, out, out_row);
    else if (n == 4)
      Tile<4>(depth, from, a_row, panel, add && whole, out, out_row);
    else if (n == 2)
      Tile<2>(depth, from, a_row, panel, add && whole, out, out_row);
    else
      Tile<1>(depth, from, a_row, panel, add && whole, out, out_row);
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
    RequestGates<4>(m, r.projected + r.projected_row, n, j);
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
    RequestGates<3>(m, r.projected + r.projected_row, n, j);
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
    RequestGates<1>(m, r.projected + r.projected_row, r.hidden, j);
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
    RequestGates<4>(m, r.grad_gates + r.gates_row, n, j);
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
    RequestGates<3>(m, r.grad_gates + r.gates_row, n, j);
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
    RequestGates<1>(m, r.grad_gates + r.gates_row, r.hidden, j);
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
    advance(r.projected, r.projected_row);
    advance(r.values, r.values_row);
    advance(r.h_before, r.before_row);
    advance(r.c_before, r.hidden);
    advance(r.h, r.h_row);
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
    advance(r.grad_gates, r.gates_row);
    advance(r.h_before, r.before_row);
    for (const T** p : {&r.values, const_cast<const T**>(&r.grad_hidden)}) advance(*p, r.gates);
    for (const T** p : {&r.h, &r.grad_output}) advance(*p, r.h_row);
    for (const T** p : {&r.c_before, &r.extra, const_cast<const T**>(&r.grad_h), const_cast<const T**>(&r.grad_c)})
      advance(*p, r.hidden);
  }
}

}  // namespace

int64_t PanelBytes() { return kTileVecs * HWY_MAX_BYTES; }
void MultiplyF32(int64_t rows, int64_t columns, int64_t depth, const float* a, int64_t a_row, const float* panel,
                 bool add, float* c, int64_t c_row) {
  multiply_panel(rows, columns, depth, a, a_row, panel, add, c, c_row);
}
void MultiplyF64(int64_t rows, int64_t columns, int64_t depth, const double* a, int64_t a_row, const double* panel,
                 bool add, double* c, int64_t c_row) {
  multiply_panel(rows, columns, depth, a, a_row, panel, add, c, c_row);
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

KernelParam number(double x) {
  KernelParam p;
  p.f = x;
  return p;
}

constexpr int64_t kPieceWork = int64_t{1} << 18;   // multiplications worth a piece of their own
constexpr int64_t kGroupBytes = int64_t{3} << 19;  // of weights that L2 holds while groups of sequences pass by
constexpr int64_t kRowWork = 64;                   // of a gate, in multiplications
int64_t grain_for(int64_t work) { return std::max<int64_t>(1, kPieceWork / std::max<int64_t>(1, work)); }
// Few rows, or few steps, are not worth a copy of the weights.
bool packs(const RnnLayer& l) { return l.batch >= 4 && l.steps >= 4; }
bool fits_cache(const RnnLayer& l) { return l.outputs * l.gates() * item_size(l.dtype) <= kGroupBytes; }

// A matrix that lies as rows, or as columns.
template <class T>
struct Weight {
  const T* data;
  int64_t depth, width;
  bool columns;  // element (k, j) is data[j * depth + k]
};

// A product with a weight that is used at every step: in panels of some columns, the last one filled up with zeros, or,
// where that is not worth it, as it lies and in one piece. A weight without data has no pieces.
template <class T>
class Product {
 public:
  Product(const Weight<T>& w, bool packed)
      : w_(w),
        slice_(packed ? TESSERA_SIMD(PanelBytes)() / static_cast<int64_t>(sizeof(T)) : std::max<int64_t>(1, w.width)),
        packed_(packed),
        data_(packed && w.data ? (slices() * w.depth + kRequested) * slice_ : 0) {
    if (!packed_ || !w_.data) return;
    parallel_for(slices(), grain_for(w_.depth * slice_), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) pack(i);
    });
  }
  int64_t slices() const { return w_.data ? ceil_div(w_.width, slice_) : 0; }
  bool packed() const { return packed_; }
  // Multiplications of a row with a slice.
  int64_t work() const { return w_.depth * slice_; }
  // Elements from row to row of a result that is kept apart: not a power of two, whose lines would share few sets of a
  // cache.
  int64_t row() const { return slices() * slice_ + 64 / static_cast<int64_t>(sizeof(T)); }
  // c (+)= a w for `rows` rows of a and slices [first, last) of w; c: the whole of a result.
  void multiply(int64_t rows, const T* a, int64_t a_row, int64_t first, int64_t last, bool add, T* c,
                int64_t c_row) const {
    if (!packed_) {
      const int64_t depth = w_.depth;
      if (first < last)
        gemm(sizeof(T) == 8 ? DType::kFloat64 : DType::kFloat32, rows, w_.width, depth, number(1),
             {const_cast<T*>(a), a_row, 1},
             {const_cast<T*>(w_.data), w_.columns ? 1 : w_.width, w_.columns ? depth : 1}, number(add ? 1 : 0),
             {c, c_row, 1});
      return;
    }
    for (int64_t i = first; i < last; ++i) {
      const int64_t n = std::min(slice_, w_.width - i * slice_);
      if constexpr (sizeof(T) == 4)
        TESSERA_SIMD(MultiplyF32)(rows, n, w_.depth, a, a_row, panel(i), add, c + i * slice_, c_row);
      else
        TESSERA_SIMD(MultiplyF64)(rows, n, w_.depth, a, a_row, panel(i), add, c + i * slice_, c_row);
    }
  }

 private:
  static constexpr int64_t kRequested = 8;  // rows behind the last that may be requested
  T* panel(int64_t i) const { return data_.get() + i * w_.depth * slice_; }
  void pack(int64_t i) const {
    const int64_t n = std::min(slice_, w_.width - i * slice_), j = w_.columns ? w_.depth : 1;
    const T* from = w_.data + i * slice_ * j;
    T* to = panel(i);
    for (int64_t k = 0; k < w_.depth; ++k, to += slice_, from += w_.columns ? 1 : w_.width) {
      if (w_.columns)
        for (int64_t v = 0; v < n; ++v) to[v] = from[v * j];
      else
        std::copy_n(from, n, to);
      std::fill(to + n, to + slice_, T{0});
    }
  }
  Weight<T> w_;
  int64_t slice_;
  bool packed_;
  ScratchArray<T> data_;
};

template <class T>
T* moved(const void* p, int64_t n) {
  return p ? static_cast<T*>(const_cast<void*>(p)) + n : nullptr;
}

// One direction of a layer; step s is the s-th in the order of computation.
template <class T>
struct Direction {
  using Number = T;
  const RnnLayer& l;
  bool reverse;
  const T *h0, *c0;
  T *values, *output, *extra;
  const int64_t gates = l.gates(), out_row = l.directions * l.outputs;

  Direction(const RnnLayer& layer, int64_t d, const RnnInputs& in, const RnnTrace& trace)
      : l(layer),
        reverse(d == 1 || layer.reverse),
        h0(moved<T>(in.h0, d * l.batch * l.outputs)),
        c0(moved<T>(in.c0, d * l.batch * l.hidden)),
        values(moved<T>(trace.gates, d * l.rows() * l.gates())),
        output(moved<T>(trace.output, d * l.outputs)),
        extra(moved<T>(trace.extra, d * l.rows() * l.hidden)) {}
  int64_t at(int64_t s) const { return reverse ? l.steps - 1 - s : s; }

  // The rows in [begin, end) that step s has: f(begin, end, state before, its row, cell before) for those that come
  // from a step and for those that begin here.
  template <class F>
  void parts(int64_t s, int64_t begin, int64_t end, F f) const {
    end = std::min(end, l.size(at(s)));
    const int64_t from = s == 0 ? 0 : at(s - 1), known = s == 0 ? 0 : std::min(end, l.size(from));
    if (begin < known) {
      const int64_t row = l.row(from) + begin;
      f(begin, known, output + row * out_row, out_row, c0 ? extra + row * l.hidden : nullptr);
      begin = known;
    }
    if (begin < end) f(begin, end, h0 + begin * l.outputs, l.outputs, c0 ? c0 + begin * l.hidden : nullptr);
  }
};

// A step is a number of stages, one after the other, each over rows or over slices of a product.
template <class T>
struct Forward : Direction<T> {
  using Direction<T>::l, Direction<T>::gates, Direction<T>::out_row;
  static constexpr int64_t kStages = 3;
  static constexpr bool kBackwards = false;
  const T *projected, *b;
  const Product<T> recurrent, projection;

  Forward(const RnnLayer& layer, int64_t d, const void* x, const RnnInputs& in, const RnnTrace& trace)
      : Direction<T>(layer, d, in, trace),
        projected(moved<T>(x, d * gates)),
        b(moved<T>(in.b_hh, d * gates)),
        recurrent({moved<T>(in.w_hh, d * gates * l.outputs), l.outputs, gates, true}, packs(l)),
        projection({moved<T>(in.w_hr, d * l.outputs * l.hidden), l.hidden, l.outputs, true}, packs(l)) {}
  const Product<T>* product(int64_t stage) const {
    return stage == 0 ? &recurrent : stage == 1 ? nullptr : &projection;
  }
  // Elements of temporary memory for a row: the product, and the states before they are projected.
  int64_t room() const { return recurrent.row() + unprojected(); }
  int64_t unprojected() const { return l.projects() ? l.hidden : 0; }

  // A stage of step s for rows [begin, end), slices [first, last); room: of row `begin`.
  void run(int64_t stage, int64_t s, int64_t begin, int64_t end, int64_t first, int64_t last, T* room) const {
    const int64_t t = this->at(s), row = this->room(), raw = recurrent.row();
    this->parts(s, begin, end, [&](int64_t from, int64_t to, const T* h, int64_t h_row, const T* c) {
      const int64_t at = l.row(t) + from;
      T *const sums = room + (from - begin) * row, *const out = this->output + at * out_row;
      if (stage == 0) return recurrent.multiply(to - from, h, h_row, first, last, false, sums, row);
      if (stage == 2) return projection.multiply(to - from, sums + raw, row, first, last, false, out, out_row);
      const ScratchArray<T> unkept(this->values ? 0 : gates);
      run_rows(l.kind, Rows<T>{to - from, l.hidden, gates, sums, row, b, projected + at * l.directions * gates,
                               l.directions * gates, this->values ? this->values + at * gates : unkept.get(),
                               this->values ? gates : 0, h, h_row, c, l.projects() ? sums + raw : out,
                               l.projects() ? row : out_row, this->extra ? this->extra + at * l.hidden : nullptr});
    });
  }
};

template <class T>
struct Backward : Direction<T> {
  using Direction<T>::l, Direction<T>::gates, Direction<T>::out_row;
  static constexpr int64_t kStages = 4;
  static constexpr bool kBackwards = true;
  const bool gru = l.kind == RnnKind::kGru;
  const T* grad_output;
  T *grad_h, *grad_c, *grad_gates, *grad_hidden;
  const Product<T> projection, recurrent;

  Backward(const RnnLayer& layer, int64_t d, const RnnInputs& in, const RnnTrace& trace, const void* grad,
           const RnnGradients& out)
      : Direction<T>(layer, d, in, trace),
        grad_output(moved<T>(grad, d * l.outputs)),
        grad_h(moved<T>(out.grad_state, d * l.batch * l.outputs)),
        grad_c(moved<T>(out.grad_cell, d * l.batch * l.hidden)),
        grad_gates(moved<T>(out.grad_gates, d * gates)),
        grad_hidden(moved<T>(out.grad_hidden, d * l.rows() * (gru ? gates : l.outputs))),
        projection({moved<T>(in.w_hr, d * l.outputs * l.hidden), l.outputs, l.hidden, false}, packs(l)),
        recurrent({moved<T>(in.w_hh, d * gates * l.outputs), gates, l.outputs, false}, packs(l)) {}
  const Product<T>* product(int64_t stage) const {
    return stage == 1 ? &projection : stage == 3 ? &recurrent : nullptr;
  }
  int64_t room() const { return l.projects() ? l.hidden : 0; }  // for a row: the gradient before the projection

  void run(int64_t stage, int64_t s, int64_t begin, int64_t end, int64_t first, int64_t last, T* room) const {
    const int64_t t = this->at(s), width = l.directions * gates;
    this->parts(s, begin, end, [&](int64_t from, int64_t to, const T* h, int64_t h_row, const T* c) {
      const int64_t n = to - from, at = l.row(t) + from;
      T *const grad = grad_h + from * l.outputs, *const raw = room + (from - begin) * l.hidden;
      T* const hidden = grad_hidden ? grad_hidden + at * (gru ? gates : l.outputs) : nullptr;
      const T* const given = grad_output ? grad_output + at * out_row : nullptr;
      T* const to_gates = grad_gates + at * width;
      if (stage == 0) return l.projects() ? add_rows(n, grad, given, hidden) : void();
      if (stage == 1) return projection.multiply(n, hidden, l.outputs, first, last, false, raw, l.hidden);
      if (stage == 3)
        return recurrent.multiply(n, gru ? hidden : to_gates, gru ? gates : width, first, last, gru, grad, l.outputs);
      run_rows(l.kind,
               BackRows<T>{n, l.hidden, gates, this->values + at * gates, h, h_row, c, this->output + at * out_row,
                           out_row, this->extra ? this->extra + at * l.hidden : nullptr, l.projects() ? nullptr : given,
                           l.projects() ? raw : grad, grad_c ? grad_c + from * l.hidden : nullptr, to_gates, width,
                           gru ? hidden : nullptr});
    });
  }

 private:
  void add_rows(int64_t n, const T* a, const T* b, T* to) const {
    for (int64_t i = 0; i < n; ++i, a += l.outputs, to += l.outputs)
      for (int64_t j = 0; j < l.outputs; ++j) to[j] = a[j] + (b ? b[i * out_row + j] : T{0});
  }
};

// Sequences, and directions, do not depend on each other: groups of them are taken through all steps where the weights
// stay in cache meanwhile. 0: each step is taken by all threads.
int64_t rows_of_group(const RnnLayer& l) {
  const bool packed = packs(l);
  if (fits_cache(l) && packed && l.batch >= 16) return l.batch <= 32 ? ceil_div(l.batch, 2) : 16;
  return l.directions == 2 && fits_cache(l) && (packed || l.batch * l.gates() * l.outputs <= kPieceWork) ? l.batch : 0;
}

// All steps of all directions.
template <class T, class D>
void run_steps(const RnnLayer& l, const D* const* directions) {
  const D& first = *directions[0];
  const int64_t room = first.room(), group = rows_of_group(l);
  const auto step = [&](int64_t i) { return D::kBackwards ? l.steps - 1 - i : i; };
  if (group > 0) {
    const int64_t groups = ceil_div(l.batch, group);
    return parallel_for(groups * l.directions, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const D& d = *directions[p / groups];
        const int64_t from = p % groups * group, to = std::min(l.batch, from + group);
        const ScratchArray<T> memory((to - from) * room);
        for (int64_t i = 0; i < l.steps; ++i)
          for (int64_t k = 0; k < D::kStages; ++k)
            d.run(k, step(i), from, to, 0, d.product(k) ? d.product(k)->slices() : 0, memory.get());
      }
    });
  }
  const ScratchArray<T> memory(l.directions * l.batch * room);
  // Pieces of all directions, which may begin in one and end in the other.
  const auto spread = [&](int64_t n, int64_t grain, auto f) {
    parallel_for(n * l.directions, grain, [&](int64_t begin, int64_t end) {
      for (int64_t next; begin < end; begin = next) {
        const int64_t d = begin / n;
        next = std::min(end, (d + 1) * n);
        f(*directions[d], begin - d * n, next - d * n, memory.get() + d * l.batch * room);
      }
    });
  };
  for (int64_t i = 0; i < l.steps; ++i)
    for (int64_t k = 0; k < D::kStages; ++k) {
      const Product<T>* product = first.product(k);
      if (!product)
        spread(l.batch, grain_for(kRowWork * l.gates()), [&](const D& d, int64_t begin, int64_t end, T* own) {
          d.run(k, step(i), begin, end, 0, 0, own + begin * room);
        });
      else if (product->packed())
        spread(product->slices(), grain_for(l.batch * product->work()),
               [&](const D& d, int64_t begin, int64_t end, T* own) { d.run(k, step(i), 0, l.batch, begin, end, own); });
      else  // shared by the threads itself
        for (int64_t d = 0; d < l.directions; ++d)
          directions[d]->run(k, step(i), 0, l.batch, 0, product->slices(), memory.get() + d * l.batch * room);
    }
}

template <class D, class... A>
void run_directions(const RnnLayer& l, const A&... args) {
  using T = typename D::Number;
  const D first(l, 0, args...);
  if (l.directions == 1) {
    const D* const one[] = {&first};
    return run_steps<T>(l, one);
  }
  const D second(l, 1, args...);
  const D* const both[] = {&first, &second};
  run_steps<T>(l, both);
}

}  // namespace

void rnn_forward(const RnnLayer& l, const void* projected, const RnnInputs& inputs, const RnnTrace& trace) {
  l.dtype == DType::kFloat64 ? run_directions<Forward<double>>(l, projected, inputs, trace)
                             : run_directions<Forward<float>>(l, projected, inputs, trace);
}

void rnn_backward(const RnnLayer& l, const RnnInputs& inputs, const RnnTrace& trace, const void* grad_output,
                  const RnnGradients& gradients) {
  l.dtype == DType::kFloat64 ? run_directions<Backward<double>>(l, inputs, trace, grad_output, gradients)
                             : run_directions<Backward<float>>(l, inputs, trace, grad_output, gradients);
}

}  // namespace tessera::cpu
#endif
