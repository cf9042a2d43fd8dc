// Losses element by element, and their derivatives (g: the gradient of the result, x: input, t: target).
#include "tensor/cuda/pointwise_math.h"

namespace tessera::pw {
extern __attribute__((weak)) const PointwiseOp mse, l1, smooth_l1, huber, bce, bce_with_logits, kl_div, kl_div_log_target, mse_backward, smooth_l1_backward, huber_backward,
    bce_backward;
}

namespace tessera::cuda {
namespace {

#define TESSERA_CALL template <class T> static __device__ T call

struct Mse : Binary {
  TESSERA_CALL(const KernelParam*, T x, T t) { return (x - t) * (x - t); }
};
struct L1 : Binary {
  template <class T> static __device__ Real<T> call(const KernelParam*, T x, T t) {
    if constexpr (is_complex_type<T>) {
      return std::hypot(x.real() - t.real(), x.imag() - t.imag());
    } else if constexpr (std::is_floating_point_v<T>) {
      return std::abs(x - t);
    } else {  // integers wrap
      const T e = static_cast<T>(static_cast<Wrap<T>>(x) - static_cast<Wrap<T>>(t));
      if constexpr (std::is_signed_v<T>) return e < 0 ? static_cast<T>(Wrap<T>{0} - static_cast<Wrap<T>>(e)) : e;
      else return e;
    }
  }
};
struct SmoothL1 : Binary {
  TESSERA_CALL(const KernelParam* p, T x, T t) {
    const T beta = param<T>(p[0]), e = std::abs(x - t);
    return e < beta ? T(0.5) * e * e / beta : e - T(0.5) * beta;
  }
};
struct Huber : Binary {
  TESSERA_CALL(const KernelParam* p, T x, T t) {
    const T delta = param<T>(p[0]), e = std::abs(x - t);
    return e <= delta ? T(0.5) * e * e : delta * (e - T(0.5) * delta);
  }
};
struct Bce : Binary {
  TESSERA_CALL(const KernelParam*, T x, T t) {
    const T log_x = math::at_least(std::log(x), T(-100)), log_rest = math::at_least(std::log1p(-x), T(-100));
    return (t - 1) * log_rest - t * log_x;
  }
};
struct BceWithLogits : Binary {  // (1 - t) x + log(1 + e^-x) = max(x, 0) - t x + log1p(e^-|x|): nothing overflows, nothing cancels at t = 0
  TESSERA_CALL(const KernelParam*, T x, T t) { return math::at_least(x, T(0)) - t * x + std::log1p(std::exp(-std::abs(x))); }
};
struct KlDiv : Binary {
  TESSERA_CALL(const KernelParam*, T x, T t) { return (t == 0 ? T(0) : t * std::log(t)) - t * x; }
};
struct KlDivLogTarget : Binary {
  TESSERA_CALL(const KernelParam*, T x, T t) { return std::exp(t) * (t - x); }
};
struct MseBackward : Ternary {
  TESSERA_CALL(const KernelParam*, T g, T x, T t) { return 2 * (x - t) * g; }
};
struct SmoothL1Backward : Ternary {
  TESSERA_CALL(const KernelParam* p, T g, T x, T t) {
    const T beta = param<T>(p[0]), e = x - t;
    return e <= -beta ? -g : e >= beta ? g : g * e / beta;
  }
};
struct HuberBackward : Ternary {
  TESSERA_CALL(const KernelParam* p, T g, T x, T t) {
    const T delta = param<T>(p[0]), e = x - t;
    return g * (e < -delta ? -delta : e > delta ? delta : e);
  }
};
struct BceBackward : Ternary {
  TESSERA_CALL(const KernelParam*, T g, T x, T t) { return g * (x - t) / math::at_least((1 - x) * x, T(1e-12)); }
};
#undef TESSERA_CALL

constexpr PointwiseEntry kEntries[] = {
    PointwiseEntry{&pw::mse}.floats<Mse>(),
    PointwiseEntry{&pw::l1}.floats<L1>().ints<L1>().complexes<Apart<L1>>(),
    PointwiseEntry{&pw::smooth_l1}.floats<SmoothL1>(),
    PointwiseEntry{&pw::huber}.floats<Huber>(),
    math_entry<Bce>(&pw::bce),
    math_entry<BceWithLogits>(&pw::bce_with_logits),
    math_entry<KlDiv>(&pw::kl_div),
    math_entry<KlDivLogTarget>(&pw::kl_div_log_target),
    PointwiseEntry{&pw::mse_backward}.floats<MseBackward>(),
    PointwiseEntry{&pw::smooth_l1_backward}.floats<SmoothL1Backward>(),
    PointwiseEntry{&pw::huber_backward}.floats<HuberBackward>(),
    PointwiseEntry{&pw::bce_backward}.floats<BceBackward>(),
};

}  // namespace

PointwiseTable loss_kernels() { return kEntries; }

}  // namespace tessera::cuda
