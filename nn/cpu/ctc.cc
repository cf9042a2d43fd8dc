// The recursion over a target's states, a vector of states at a time, in logarithms. Backwards it is the same recursion
// over the reversed target.
#include "nn/cpu/ctc.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/core/parallel.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd.h"
#include "tensor/cpu/support/types.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/ctc.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/cpu/math/math-inl.h"

#ifndef TESSERA_CTC_
#define TESSERA_CTC_
namespace tessera::cpu::internal {

constexpr int64_t kCtcPad = 16;  // elements before a row of states, and behind it

// The states of one target. Arrays are defined up to the next multiple of kCtcPad.
template <class A>
struct CtcStates {
  int64_t count;
  const hwy::MakeSigned<A>* label;  // of each state
  const A* skip;                    // 0 where the state may follow the one two before it, else -inf
};

}  // namespace tessera::cpu::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
using internal::CtcStates;
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// One step of the recursion. before: the last step's row, -inf in front of it.
template <class A>
void Advance(const CtcStates<A>& s, const A* log_probs, const A* HWY_RESTRICT before, A* HWY_RESTRICT now) {
  const hn::ScalableTag<A> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto never = hn::Set(d, -std::numeric_limits<A>::infinity());
  for (int64_t i = 0; i < s.count; i += HWY_LANES(A)) {
    const auto stay = hn::LoadU(d, before + i), next = hn::LoadU(d, before + i - 1),
               skip = hn::Add(hn::LoadU(d, before + i - 2), hn::LoadU(d, s.skip + i));
    const auto most = hn::Max(hn::Max(stay, next), skip);
    const auto base = hn::IfThenZeroElse(hn::Eq(most, never), most);
    const auto sum = hn::Add(hn::Add(math::Exp(d, hn::Sub(stay, base)), math::Exp(d, hn::Sub(next, base))),
                             math::Exp(d, hn::Sub(skip, base)));
    const auto score = hn::GatherIndex(d, log_probs, hn::LoadU(di, s.label + i));
    const auto all = hn::Add(hn::Add(math::Log(d, sum), base), score);
    hn::StoreU(hn::IfThenElse(hn::Eq(most, never), never, all), d, now + i);
  }
}

// visits[i] = exp(alpha[i] + beta[i] - log_probs of the state + loss).
template <class A>
void Visits(const CtcStates<A>& s, const A* log_probs, const A* HWY_RESTRICT alpha, const A* HWY_RESTRICT beta, A loss,
            A* HWY_RESTRICT visits) {
  const hn::ScalableTag<A> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto never = hn::Set(d, -std::numeric_limits<A>::infinity());
  for (int64_t i = 0; i < s.count; i += HWY_LANES(A)) {
    const auto both = hn::Add(hn::LoadU(d, alpha + i), hn::LoadU(d, beta + i));
    const auto score = hn::GatherIndex(d, log_probs, hn::LoadU(di, s.label + i));
    const auto p = math::Exp(d, hn::Add(hn::Sub(both, score), hn::Set(d, loss)));
    hn::StoreU(hn::IfThenZeroElse(hn::Eq(both, never), p), d, visits + i);
  }
}

// to = (exp(log_probs) - visits) * grad.
template <class A>
void Difference(const A* log_probs, const A* visits, A grad, int64_t n, A* to) {
  const hn::ScalableTag<A> d;
  const auto g = hn::Set(d, grad);
  int64_t i = 0;
  for (; i + HWY_LANES(A) <= n; i += HWY_LANES(A))
    hn::StoreU(hn::Mul(hn::Sub(math::Exp(d, hn::LoadU(d, log_probs + i)), hn::LoadU(d, visits + i)), g), d, to + i);
  if (i == n) return;
  HWY_ALIGN A rest[HWY_LANES(A)] = {};
  std::copy(log_probs + i, log_probs + n, rest);
  const auto p = math::Exp(d, hn::Load(d, rest));
  std::copy(visits + i, visits + n, rest);
  hn::Store(hn::Mul(hn::Sub(p, hn::Load(d, rest)), g), d, rest);
  std::copy(rest, rest + (n - i), to + i);
}

}  // namespace

void AdvanceF(const CtcStates<float>& s, const float* log_probs, const float* before, float* now) {
  Advance(s, log_probs, before, now);
}
void AdvanceD(const CtcStates<double>& s, const double* log_probs, const double* before, double* now) {
  Advance(s, log_probs, before, now);
}
void VisitsF(const CtcStates<float>& s, const float* log_probs, const float* alpha, const float* beta, float loss,
             float* visits) {
  Visits(s, log_probs, alpha, beta, loss, visits);
}
void VisitsD(const CtcStates<double>& s, const double* log_probs, const double* alpha, const double* beta, double loss,
             double* visits) {
  Visits(s, log_probs, alpha, beta, loss, visits);
}
void DifferenceF(const float* log_probs, const float* visits, float grad, int64_t n, float* to) {
  Difference(log_probs, visits, grad, n, to);
}
void DifferenceD(const double* log_probs, const double* visits, double grad, int64_t n, double* to) {
  Difference(log_probs, visits, grad, n, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

using namespace internal;  // NOLINT: helpers of these kernels

TESSERA_SIMD_TABLE(AdvanceF);
TESSERA_SIMD_TABLE(AdvanceD);
TESSERA_SIMD_TABLE(VisitsF);
TESSERA_SIMD_TABLE(VisitsD);
TESSERA_SIMD_TABLE(DifferenceF);
TESSERA_SIMD_TABLE(DifferenceD);

template <class A>
struct CtcKernels;
template <>
struct CtcKernels<float> {
  static auto advance() { return TESSERA_SIMD(AdvanceF); }
  static auto visits() { return TESSERA_SIMD(VisitsF); }
  static auto difference() { return TESSERA_SIMD(DifferenceF); }
};
template <>
struct CtcKernels<double> {
  static auto advance() { return TESSERA_SIMD(AdvanceD); }
  static auto visits() { return TESSERA_SIMD(VisitsD); }
  static auto difference() { return TESSERA_SIMD(DifferenceD); }
};

template <class A>
constexpr A kNever = -std::numeric_limits<A>::infinity();

int64_t padded(int64_t n) { return (n + kCtcPad - 1) / kCtcPad * kCtcPad; }

// The labels of a target with blanks around them, from either end.
template <class A>
class Target {
 public:
  Target(const CtcBatch& b, int64_t n, bool reversed)
      : labels_(padded(2 * b.target_lengths[n] + 1)), skips_(padded(2 * b.target_lengths[n] + 1)) {
    const int64_t length = b.target_lengths[n], count = 2 * length + 1;
    for (int64_t i = 0; i < padded(count); ++i) {
      const int64_t k = reversed ? length - 1 - i / 2 : i / 2;
      labels_[i] = static_cast<hwy::MakeSigned<A>>(i % 2 == 1 && i < count ? b.targets[n][k] : b.blank);
      skips_[i] = i >= 2 && labels_[i] != b.blank && labels_[i] != labels_[i - 2] ? A(0) : kNever<A>;
    }
    states_ = {count, labels_.get(), skips_.get()};
  }
  const CtcStates<A>& states() const { return states_; }

  // The first row: in a blank or in the first label.
  void start(const A* log_probs, A* row) const {
    std::fill_n(row, padded(states_.count), kNever<A>);
    for (int64_t i = 0; i < std::min<int64_t>(2, states_.count); ++i) row[i] = log_probs[states_.label[i]];
  }

 private:
  ScratchArray<hwy::MakeSigned<A>> labels_;
  ScratchArray<A> skips_;
  CtcStates<A> states_;
};

// Two rows of states, that of the last step and that of this one, with -inf in front.
template <class A>
class RowPair {
 public:
  explicit RowPair(int64_t states) : length_(kCtcPad + padded(states)), memory_(2 * length_) {
    std::fill_n(memory_.get(), 2 * length_, kNever<A>);
  }
  A* now() const { return memory_.get() + at_ * length_ + kCtcPad; }
  A* before() const { return memory_.get() + (1 - at_) * length_ + kCtcPad; }
  void turn() { at_ = 1 - at_; }

 private:
  int64_t length_;
  ScratchArray<A> memory_;
  int at_ = 0;
};

// -log(exp(a) + exp(b)).
template <class A>
A negative_log_sum(A a, A b) {
  const A most = std::max(a, b);
  return most == kNever<A> ? -most : -(most + std::log(std::exp(a - most) + std::exp(b - most)));
}

template <class A>
A sequence_loss(const CtcBatch& b, int64_t n, const A* log_probs, A* log_alpha) {
  const int64_t steps = b.input_lengths[n], row = b.batch * b.classes;
  std::fill_n(log_alpha, b.steps * b.states, kNever<A>);
  if (steps == 0) return b.target_lengths[n] == 0 ? A(0) : -kNever<A>;  // nothing is said in no time
  const Target<A> target(b, n, false);
  const int64_t count = target.states().count;
  RowPair<A> alpha(count);
  target.start(log_probs, alpha.now());
  std::copy_n(alpha.now(), count, log_alpha);
  for (int64_t t = 1; t < steps; ++t) {
    alpha.turn();
    CtcKernels<A>::advance()(target.states(), log_probs + t * row, alpha.before(), alpha.now());
    std::copy_n(alpha.now(), count, log_alpha + t * b.states);
  }
  return negative_log_sum(alpha.now()[count - 1], count > 1 ? alpha.now()[count - 2] : kNever<A>);
}

// What is 0 or not a number in all classes.
template <class A>
void fill_gradient(const CtcBatch& b, int64_t begin, int64_t end, A value, A* grad) {
  for (int64_t t = begin; t < end; ++t) std::fill_n(grad + t * b.batch * b.classes, b.classes, value);
}

template <class A>
void sequence_gradient(const CtcBatch& b, int64_t n, const A* log_probs, A loss, const A* log_alpha, A grad_loss,
                       bool zero_infinity, A* grad) {
  const int64_t steps = b.input_lengths[n], row = b.batch * b.classes;
  fill_gradient(b, steps, b.steps, A(0), grad);
  if (std::isinf(loss))
    return fill_gradient(b, 0, steps, zero_infinity ? A(0) : std::numeric_limits<A>::quiet_NaN(), grad);
  if (steps == 0) return;
  const Target<A> target(b, n, false), reversed(b, n, true);
  const int64_t count = target.states().count;
  RowPair<A> beta(count);
  ScratchArray<A> memory(3 * padded(count) + b.classes);
  A *const turned = memory.get(), *const visits = turned + padded(count), *const alpha = visits + padded(count),
           *const sums = alpha + padded(count);
  std::fill_n(turned, 3 * padded(count), kNever<A>);
  reversed.start(log_probs + (steps - 1) * row, beta.now());
  for (int64_t t = steps - 1; t >= 0; --t) {
    const A* const scores = log_probs + t * row;
    if (t < steps - 1) {
      beta.turn();
      CtcKernels<A>::advance()(reversed.states(), scores, beta.before(), beta.now());
    }
    std::reverse_copy(beta.now(), beta.now() + count, turned);
    std::copy_n(log_alpha + t * b.states, count, alpha);
    CtcKernels<A>::visits()(target.states(), scores, alpha, turned, loss, visits);
    std::fill_n(sums, b.classes, A(0));
    for (int64_t i = 0; i < count; ++i) sums[target.states().label[i]] += visits[i];
    CtcKernels<A>::difference()(scores, sums, grad_loss, b.classes, grad + t * row);
  }
}

template <class A>
void forward(const CtcBatch& b, const A* log_probs, A* loss, A* log_alpha) {
  parallel_for(b.batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n)
      loss[n] = sequence_loss(b, n, log_probs + n * b.classes, log_alpha + n * b.steps * b.states);
  });
}
template <class A>
void backward(const CtcBatch& b, const A* log_probs, const A* loss, const A* log_alpha, const A* grad_loss,
              int64_t stride, bool zero_infinity, A* grad) {
  parallel_for(b.batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n)
      sequence_gradient(b, n, log_probs + n * b.classes, loss[n], log_alpha + n * b.steps * b.states,
                        grad_loss[n * stride], zero_infinity, grad + n * b.classes);
  });
}

template <class F>
void visit_arithmetic(DType dtype, F&& fn) {
  if (dtype == DType::kFloat32) return fn(float{});
  if (dtype == DType::kFloat64) return fn(double{});
  raise_not_implemented("ctc_loss", dtype);
}

}  // namespace

void ctc_forward(DType dtype, const CtcBatch& b, const void* log_probs, void* loss, void* log_alpha) {
  visit_arithmetic(dtype, [&](auto tag) {
    using A = decltype(tag);
    forward(b, static_cast<const A*>(log_probs), static_cast<A*>(loss), static_cast<A*>(log_alpha));
  });
}

void ctc_backward(DType dtype, const CtcBatch& b, const void* log_probs, const void* loss, const void* log_alpha,
                  const void* grad_loss, int64_t stride, bool zero_infinity, void* grad) {
  visit_arithmetic(dtype, [&](auto tag) {
    using A = decltype(tag);
    backward(b, static_cast<const A*>(log_probs), static_cast<const A*>(loss), static_cast<const A*>(log_alpha),
             static_cast<const A*>(grad_loss), stride, zero_infinity, static_cast<A*>(grad));
  });
}

}  // namespace tessera::cpu
#endif
