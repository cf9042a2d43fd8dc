// Optimizer steps, one parameter at a time. The order of the operations is that of the documented algorithms.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/cpu/optim.cc"
#include <cmath>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/core/parallel.h"
#include "optim/cpu/optim.h"
#include "tensor/cpu/support/types.h"
#include "tensor/cpu/support/request.h"
#include "tensor/cpu/support/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {

#define TESSERA_VECTORIZE __attribute__((optimize("O3")))

constexpr int64_t kGrain = 16384;

// ---- SGD ----

// Sutskever et al. 2013, in the form of the documented algorithm: g += weight_decay p; buf = momentum buf + (1 -
// dampening) g; g = buf, or g + momentum buf with Nesterov; p -= lr g. kState: 0 no momentum, 1 the first step (buf =
// g), 2 later ones.
template <int kState, bool kNesterov, class T>
TESSERA_VECTORIZE void sgd_piece(const SgdStep& s, int64_t n, T* __restrict param, const T* __restrict grad,
                                 T* __restrict buffer) {
  using A = Acc<T>;
  const A sign = s.maximize ? A{-1} : A{1}, decay = static_cast<A>(s.weight_decay),
          momentum = static_cast<A>(s.momentum), rest = static_cast<A>(1 - s.dampening);
  const A step = static_cast<A>(-s.lr);
  for (int64_t i = 0; i < n; ++i) {
    const A p = static_cast<A>(param[i]);
    A g = sign * static_cast<A>(grad[i]);
    if (decay != 0) g += decay * p;
    if constexpr (kState != 0) {
      const A b = kState == 1 ? g : momentum * static_cast<A>(buffer[i]) + rest * g;
      buffer[i] = static_cast<T>(b);
      g = kNesterov ? g + momentum * b : b;
    }
    param[i] = static_cast<T>(p + step * g);
  }
}

template <class T>
void Sgd(int64_t n, const SgdStep& s, T* param, const T* grad, T* buffer) {
  auto* piece = sgd_piece<0, false, T>;
  if (buffer && s.first_step) piece = s.nesterov ? sgd_piece<1, true, T> : sgd_piece<1, false, T>;
  if (buffer && !s.first_step) piece = s.nesterov ? sgd_piece<2, true, T> : sgd_piece<2, false, T>;
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    piece(s, end - begin, param + begin, grad + begin, buffer ? buffer + begin : nullptr);
  });
}

// ---- Adam, AdamW ----

// Kingma and Ba 2015; decoupled decay: Loshchilov and Hutter 2019; AMSGrad: Reddi, Kale and Kumar 2018.
template <class A>
struct AdamFactors {
  A sign, shrink, decay, beta1, rest1, beta2, rest2, root2, eps, step;
  explicit AdamFactors(const AdamStep& s) {
    sign = s.maximize ? A{-1} : A{1};
    shrink = s.decoupled_decay ? static_cast<A>(1 - s.lr * s.weight_decay) : A{1};
    decay = s.decoupled_decay ? A{0} : static_cast<A>(s.weight_decay);
    beta1 = static_cast<A>(s.beta1);
    rest1 = static_cast<A>(1 - s.beta1);
    beta2 = static_cast<A>(s.beta2);
    rest2 = static_cast<A>(1 - s.beta2);
    root2 = static_cast<A>(std::sqrt(1 - std::pow(s.beta2, s.step)));
    eps = static_cast<A>(s.eps);
    step = static_cast<A>(-(s.lr / (1 - std::pow(s.beta1, s.step))));
  }
};

namespace hn = hwy::HWY_NAMESPACE;

// The state of a parameter, in the type of its arithmetic.
template <class A>
struct AdamArrays {
  A *param, *m, *v, *max_v;
};

// One vector at i.
template <bool kAmsgrad, class D, class A>
HWY_INLINE void adam_vector(D d, const AdamFactors<A>& k, const A* grad, const AdamArrays<A>& s, int64_t i) {
  auto g = hn::Mul(hn::Set(d, k.sign), hn::LoadU(d, grad + i));
  const auto p = hn::Mul(hn::LoadU(d, s.param + i), hn::Set(d, k.shrink));
  if (k.decay != 0) g = hn::MulAdd(hn::Set(d, k.decay), p, g);
  const auto before = hn::LoadU(d, s.m + i), change = hn::Sub(g, before);
  // The documented lerp takes the nearer end as its base.
  const auto m = k.rest1 < A{0.5} ? hn::MulAdd(hn::Set(d, k.rest1), change, before)
                                  : hn::NegMulAdd(change, hn::Set(d, A{1} - k.rest1), g);
  const auto v = hn::MulAdd(hn::Mul(hn::Set(d, k.rest2), g), g, hn::Mul(hn::LoadU(d, s.v + i), hn::Set(d, k.beta2)));
  hn::StoreU(m, d, s.m + i);
  hn::StoreU(v, d, s.v + i);
  auto largest = v;
  if constexpr (kAmsgrad) {
    const auto old = hn::LoadU(d, s.max_v + i);
    largest = hn::IfThenElse(hn::Or(hn::Gt(old, v), hn::Ne(old, old)), old, v);
    hn::StoreU(largest, d, s.max_v + i);
  }
  const auto denominator = hn::Add(hn::Div(hn::Sqrt(largest), hn::Set(d, k.root2)), hn::Set(d, k.eps));
  hn::StoreU(hn::Add(p, hn::Div(hn::Mul(hn::Set(d, k.step), m), denominator)), d, s.param + i);
}

template <bool kAmsgrad, class A>
void adam_piece(const AdamFactors<A>& f, int64_t n, const A* grad, const AdamArrays<A>& s) {
  const hn::ScalableTag<A> d;
  constexpr int64_t kLanes = HWY_MAX_BYTES / sizeof(A);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    // The processor does not request enough of so many arrays by itself.
    for (const A* array :
         {grad, static_cast<const A*>(s.param), static_cast<const A*>(s.m), static_cast<const A*>(s.v)})
      request_ahead(array + i);
    adam_vector<kAmsgrad>(d, f, grad, s, i);
  }
  if (i == n) return;
  A rest[5][kLanes] = {};
  A* const from[4] = {s.param, s.m, s.v, s.max_v};
  for (int64_t j = i; j < n; ++j) {
    rest[4][j - i] = grad[j];
    for (int q = 0; q < 3 + kAmsgrad; ++q) rest[q][j - i] = from[q][j];
  }
  adam_vector<kAmsgrad>(d, f, rest[4], AdamArrays<A>{rest[0], rest[1], rest[2], rest[3]}, 0);
  for (int64_t j = i; j < n; ++j)
    for (int q = 0; q < 3 + kAmsgrad; ++q) from[q][j] = rest[q][j - i];
}

// The 16-bit types: blocks of them in float.
template <bool kAmsgrad, class T>
void adam_reduced(const AdamFactors<float>& f, int64_t n, const T* grad, T* const (&state)[4]) {
  constexpr int64_t kBlock = 256;
  float block[5][kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = n - i < kBlock ? n - i : kBlock;
    for (int64_t j = 0; j < count; ++j) block[4][j] = grad[i + j];
    for (int q = 0; q < 3 + kAmsgrad; ++q)
      for (int64_t j = 0; j < count; ++j) block[q][j] = state[q][i + j];
    adam_piece<kAmsgrad>(f, count, block[4], AdamArrays<float>{block[0], block[1], block[2], block[3]});
    for (int q = 0; q < 3 + kAmsgrad; ++q)
      for (int64_t j = 0; j < count; ++j) state[q][i + j] = static_cast<T>(block[q][j]);
  }
}

template <bool kAmsgrad, class T>
void Adam(int64_t n, const AdamStep& s, T* param, const T* grad, T* m, T* v, T* max_v) {
  const AdamFactors<Acc<T>> f(s);
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) HWY_ATTR {
    T* const state[4] = {param + begin, m + begin, v + begin, kAmsgrad ? max_v + begin : nullptr};
    if constexpr (kIsReduced<T>)
      adam_reduced<kAmsgrad>(f, end - begin, grad + begin, state);
    else
      adam_piece<kAmsgrad>(f, end - begin, grad + begin, AdamArrays<T>{state[0], state[1], state[2], state[3]});
  });
}

}  // namespace

void SgdAll(DType dtype, int64_t n, const SgdStep& s, void* param, const void* grad, void* buffer) {
  visit_floats("sgd_step", dtype, [&](auto tag) HWY_ATTR {
    using T = decltype(tag);
    Sgd(n, s, static_cast<T*>(param), static_cast<const T*>(grad), static_cast<T*>(buffer));
  });
}
void AdamAll(DType dtype, int64_t n, const AdamStep& s, void* param, const void* grad, void* m, void* v, void* max_v) {
  visit_floats("adam_step", dtype, [&](auto tag) HWY_ATTR {
    using T = decltype(tag);
    const auto run = s.amsgrad ? Adam<true, T> : Adam<false, T>;
    run(n, s, static_cast<T*>(param), static_cast<const T*>(grad), static_cast<T*>(m), static_cast<T*>(v),
        static_cast<T*>(max_v));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace internal {
namespace {
TESSERA_SIMD_TABLE(SgdAll);
TESSERA_SIMD_TABLE(AdamAll);
}  // namespace
}  // namespace internal

void sgd_step(DType dtype, int64_t n, const SgdStep& s, void* param, const void* grad, void* momentum_buffer) {
  using internal::SgdAll_simd_table;
  TESSERA_SIMD(SgdAll)(dtype, n, s, param, grad, momentum_buffer);
}
void adam_step(DType dtype, int64_t n, const AdamStep& s, void* param, const void* grad, void* exp_avg,
               void* exp_avg_sq, void* max_exp_avg_sq) {
  using internal::AdamAll_simd_table;
  TESSERA_SIMD(AdamAll)(dtype, n, s, param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq);
}

}  // namespace tessera::cpu
#endif
