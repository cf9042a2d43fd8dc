// Recurrent layers: a matrix product and one pass over the gates at each step.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/rnn.cc"
#include <algorithm>
#include <vector>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/gemm.h"
#include "tensor/cpu/math-inl.h"
#include "tensor/cpu/rnn.h"
#include "tensor/cpu/rnn_rows.h"
#include "tensor/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using internal::BackRow;
using internal::Row;

// Memory of a whole vector, and of the rest of a row.
struct Whole {
  template <class D> HWY_INLINE hn::Vec<D> load(D d, const hn::TFromD<D>* p) const { return hn::LoadU(d, p); }
  template <class D> HWY_INLINE void store(D d, hn::Vec<D> v, hn::TFromD<D>* p) const { hn::StoreU(v, d, p); }
};
struct Rest {
  size_t n;
  template <class D> HWY_INLINE hn::Vec<D> load(D d, const hn::TFromD<D>* p) const { return hn::MaskedLoad(hn::FirstN(d, n), d, p); }
  template <class D> HWY_INLINE void store(D d, hn::Vec<D> v, hn::TFromD<D>* p) const { hn::BlendedStore(v, hn::FirstN(d, n), d, p); }
};
template <class D, class F>
HWY_INLINE void over_row(D d, int64_t n, F f) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) f(j, Whole());
  if (j < n) f(j, Rest{static_cast<size_t>(n - j)});
}

template <class D, class V> HWY_INLINE V Logistic(D d, V x) {
  const V one = hn::Set(d, 1);
  return hn::Div(one, hn::Add(one, math::Exp(d, hn::Neg(x))));
}
template <class D, class V> HWY_INLINE V LogisticSlope(D d, V y) { return hn::Mul(y, hn::Sub(hn::Set(d, 1), y)); }
template <class D, class V> HWY_INLINE V TanhSlope(D d, V y) { return hn::NegMulAdd(y, y, hn::Set(d, 1)); }

template <class T>
void LstmRow(const Row<T>& r) {
  const hn::ScalableTag<T> d;
  const int64_t n = r.hidden;
  over_row(d, n, [&](int64_t j, auto m) HWY_ATTR {
    const auto in = Logistic(d, m.load(d, r.gates + j)), forget = Logistic(d, m.load(d, r.gates + n + j));
    const auto candidate = math::Tanh(d, m.load(d, r.gates + 2 * n + j)), out = Logistic(d, m.load(d, r.gates + 3 * n + j));
    const auto c = hn::MulAdd(forget, m.load(d, r.c_before + j), hn::Mul(in, candidate));
    m.store(d, in, r.gates + j);
    m.store(d, forget, r.gates + n + j);
    m.store(d, candidate, r.gates + 2 * n + j);
    m.store(d, out, r.gates + 3 * n + j);
    m.store(d, c, r.extra + j);
    m.store(d, hn::Mul(out, math::Tanh(d, c)), r.h + j);
  });
}
template <class T>
void GruRow(const Row<T>& r) {
  const hn::ScalableTag<T> d;
  const int64_t n = r.hidden;
  over_row(d, n, [&](int64_t j, auto m) HWY_ATTR {
    const auto reset = Logistic(d, hn::Add(m.load(d, r.gates + j), m.load(d, r.from_state + j)));
    const auto update = Logistic(d, hn::Add(m.load(d, r.gates + n + j), m.load(d, r.from_state + n + j)));
    const auto recurrent = m.load(d, r.from_state + 2 * n + j);
    const auto candidate = math::Tanh(d, hn::MulAdd(reset, recurrent, m.load(d, r.gates + 2 * n + j)));
    m.store(d, reset, r.gates + j);
    m.store(d, update, r.gates + n + j);
    m.store(d, candidate, r.gates + 2 * n + j);
    m.store(d, recurrent, r.extra + j);
    m.store(d, hn::MulAdd(hn::Sub(m.load(d, r.h_before + j), candidate), update, candidate), r.h + j);
  });
}
template <class T, bool kTanh>
void PlainRow(const Row<T>& r) {
  const hn::ScalableTag<T> d;
  over_row(d, r.hidden, [&](int64_t j, auto m) HWY_ATTR {
    const auto x = m.load(d, r.gates + j);
    if constexpr (kTanh) m.store(d, math::Tanh(d, x), r.h + j);
    else m.store(d, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x), r.h + j);  // keeps NaN
  });
}

template <class T>
void LstmBackRow(const BackRow<T>& r) {
  const hn::ScalableTag<T> d;
  const int64_t n = r.hidden;
  over_row(d, n, [&](int64_t j, auto m) HWY_ATTR {
    const auto in = m.load(d, r.gates + j), forget = m.load(d, r.gates + n + j), candidate = m.load(d, r.gates + 2 * n + j), out = m.load(d, r.gates + 3 * n + j);
    const auto squashed = math::Tanh(d, m.load(d, r.extra + j)), grad_h = m.load(d, r.grad_h + j);
    const auto grad_c = hn::MulAdd(hn::Mul(grad_h, out), TanhSlope(d, squashed), m.load(d, r.grad_c + j));
    m.store(d, hn::Mul(hn::Mul(grad_c, candidate), LogisticSlope(d, in)), r.grad_gates + j);
    m.store(d, hn::Mul(hn::Mul(grad_c, m.load(d, r.c_before + j)), LogisticSlope(d, forget)), r.grad_gates + n + j);
    m.store(d, hn::Mul(hn::Mul(grad_c, in), TanhSlope(d, candidate)), r.grad_gates + 2 * n + j);
    m.store(d, hn::Mul(hn::Mul(grad_h, squashed), LogisticSlope(d, out)), r.grad_gates + 3 * n + j);
    m.store(d, hn::Mul(grad_c, forget), r.grad_c + j);
    m.store(d, hn::Zero(d), r.grad_h + j);
  });
}
template <class T>
void GruBackRow(const BackRow<T>& r) {
  const hn::ScalableTag<T> d;
  const int64_t n = r.hidden;
  over_row(d, n, [&](int64_t j, auto m) HWY_ATTR {
    const auto reset = m.load(d, r.gates + j), update = m.load(d, r.gates + n + j), candidate = m.load(d, r.gates + 2 * n + j), grad_h = m.load(d, r.grad_h + j);
    const auto grad_candidate = hn::Mul(hn::Mul(grad_h, hn::Sub(hn::Set(d, 1), update)), TanhSlope(d, candidate));
    const auto grad_reset = hn::Mul(hn::Mul(grad_candidate, m.load(d, r.extra + j)), LogisticSlope(d, reset));
    const auto grad_update = hn::Mul(hn::Mul(grad_h, hn::Sub(m.load(d, r.h_before + j), candidate)), LogisticSlope(d, update));
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
void PlainBackRow(const BackRow<T>& r) {
  const hn::ScalableTag<T> d;
  over_row(d, r.hidden, [&](int64_t j, auto m) HWY_ATTR {
    const auto h = m.load(d, r.h + j), grad_h = m.load(d, r.grad_h + j);
    if constexpr (kTanh) m.store(d, hn::Mul(grad_h, TanhSlope(d, h)), r.grad_gates + j);
    else m.store(d, hn::IfThenElseZero(hn::Gt(h, hn::Zero(d)), grad_h), r.grad_gates + j);
    m.store(d, hn::Zero(d), r.grad_h + j);
  });
}

template <class T>
void row_of(RnnKind kind, const Row<T>& r) {
  switch (kind) {
    case RnnKind::kLstm: return LstmRow(r);
    case RnnKind::kGru: return GruRow(r);
    case RnnKind::kTanh: return PlainRow<T, true>(r);
    case RnnKind::kRelu: return PlainRow<T, false>(r);
  }
}
template <class T>
void back_row_of(RnnKind kind, const BackRow<T>& r) {
  switch (kind) {
    case RnnKind::kLstm: return LstmBackRow(r);
    case RnnKind::kGru: return GruBackRow(r);
    case RnnKind::kTanh: return PlainBackRow<T, true>(r);
    case RnnKind::kRelu: return PlainBackRow<T, false>(r);
  }
}

}  // namespace

void RowF32(RnnKind kind, const Row<float>& r) { row_of(kind, r); }
void RowF64(RnnKind kind, const Row<double>& r) { row_of(kind, r); }
void BackRowF32(RnnKind kind, const BackRow<float>& r) { back_row_of(kind, r); }
void BackRowF64(RnnKind kind, const BackRow<double>& r) { back_row_of(kind, r); }

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

using internal::BackRow;
using internal::Row;
TESSERA_SIMD_TABLE(RowF32);
TESSERA_SIMD_TABLE(RowF64);
TESSERA_SIMD_TABLE(BackRowF32);
TESSERA_SIMD_TABLE(BackRowF64);
void run_row(RnnKind kind, const Row<float>& r) { TESSERA_SIMD(RowF32)(kind, r); }
void run_row(RnnKind kind, const Row<double>& r) { TESSERA_SIMD(RowF64)(kind, r); }
void run_row(RnnKind kind, const BackRow<float>& r) { TESSERA_SIMD(BackRowF32)(kind, r); }
void run_row(RnnKind kind, const BackRow<double>& r) { TESSERA_SIMD(BackRowF64)(kind, r); }

KernelParam number(double x) {
  KernelParam p;
  p.f = x;
  return p;
}
// c = beta c + a b, dense row-major matrices: a is m x k, b is k x n.
template <class T>
void product(int64_t m, int64_t n, int64_t k, const T* a, const T* b, double beta, T* c) {
  gemm(sizeof(T) == 8 ? DType::kFloat64 : DType::kFloat32, m, n, k, number(1), {const_cast<T*>(a), k, 1}, {const_cast<T*>(b), n, 1}, number(beta), {c, n, 1});
}

int64_t rows_per_piece(int64_t hidden) { return std::max<int64_t>(1, 4096 / std::max<int64_t>(1, hidden)); }

// The steps in the order of computation: at(0) is the first.
struct Order {
  int64_t steps;
  bool reverse;
  int64_t at(int64_t s) const { return reverse ? steps - 1 - s : s; }
};

template <class T>
void forward(const RnnLayer& l, const RnnTrace& trace, const T* h0, const T* c0, const T* w, const T* b) {
  const Order order{l.steps, l.reverse};
  const int64_t gates = l.gates(), state = l.batch * l.hidden;
  auto *values = static_cast<T*>(trace.gates), *output = static_cast<T*>(trace.output), *extra = static_cast<T*>(trace.extra);
  std::vector<T> from_state(l.kind == RnnKind::kGru ? static_cast<size_t>(l.batch * gates) : 0);
  for (int64_t s = 0; s < l.steps; ++s) {
    const int64_t t = order.at(s);
    const T* h = s == 0 ? h0 : output + order.at(s - 1) * state;
    const T* c = s == 0 ? c0 : extra + order.at(s - 1) * state;
    T* now = values + t * l.batch * gates;
    if (l.kind == RnnKind::kGru) {
      for (int64_t i = 0; b && i < l.batch; ++i) std::copy(b, b + gates, from_state.data() + i * gates);
      product(l.batch, gates, l.hidden, h, w, b ? 1 : 0, from_state.data());
    } else {
      product(l.batch, gates, l.hidden, h, w, 1, now);
    }
    parallel_for(l.batch, rows_per_piece(l.hidden), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i * l.hidden;
        run_row(l.kind, Row<T>{l.hidden, now + i * gates, from_state.data() + (from_state.empty() ? 0 : i * gates), h + at, c0 ? c + at : nullptr, output + t * state + at,
                               extra ? extra + t * state + at : nullptr});
      }
    });
  }
}

template <class T>
void backward(const RnnLayer& l, const RnnTrace& trace, const T* h0, const T* c0, const T* w, const T* grad_output, T* grad_h, T* grad_c, T* grad_gates, T* grad_hidden) {
  const Order order{l.steps, l.reverse};
  const int64_t gates = l.gates(), state = l.batch * l.hidden;
  const auto *values = static_cast<const T*>(trace.gates), *output = static_cast<const T*>(trace.output), *extra = static_cast<const T*>(trace.extra);
  for (int64_t s = l.steps - 1; s >= 0; --s) {
    const int64_t t = order.at(s);
    const T* h = s == 0 ? h0 : output + order.at(s - 1) * state;
    const T* c = s == 0 ? c0 : extra + order.at(s - 1) * state;
    parallel_for(l.batch, rows_per_piece(l.hidden), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i * l.hidden, row = (t * l.batch + i) * gates;
        if (grad_output)
          for (int64_t j = 0; j < l.hidden; ++j) grad_h[at + j] += grad_output[t * state + at + j];
        run_row(l.kind, BackRow<T>{l.hidden, values + row, h + at, c0 ? c + at : nullptr, output + t * state + at, extra ? extra + t * state + at : nullptr, grad_h + at,
                                   grad_c ? grad_c + at : nullptr, grad_gates + row, grad_hidden ? grad_hidden + row : nullptr});
      }
    });
    product(l.batch, l.hidden, gates, (grad_hidden ? grad_hidden : grad_gates) + t * l.batch * gates, w, 1, grad_h);
  }
}

}  // namespace

void rnn_forward(const RnnLayer& layer, const RnnTrace& trace, const void* h0, const void* c0, const void* w_hh_t, const void* b_hh) {
  auto run = [&](auto tag) {
    using T = decltype(tag);
    forward(layer, trace, static_cast<const T*>(h0), static_cast<const T*>(c0), static_cast<const T*>(w_hh_t), static_cast<const T*>(b_hh));
  };
  layer.dtype == DType::kFloat64 ? run(double()) : run(float());
}

void rnn_backward(const RnnLayer& layer, const RnnTrace& trace, const void* h0, const void* c0, const void* w_hh, const void* grad_output, void* grad_state, void* grad_cell, void* grad_gates,
                  void* grad_hidden) {
  auto run = [&](auto tag) {
    using T = decltype(tag);
    backward(layer, trace, static_cast<const T*>(h0), static_cast<const T*>(c0), static_cast<const T*>(w_hh), static_cast<const T*>(grad_output), static_cast<T*>(grad_state),
             static_cast<T*>(grad_cell), static_cast<T*>(grad_gates), static_cast<T*>(grad_hidden));
  };
  layer.dtype == DType::kFloat64 ? run(double()) : run(float());
}

}  // namespace tessera::cpu
#endif
