// The operators of logsumexp, which softmax of long lines uses too.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "tensor/cuda/reduce/reduce_elements.h"
#include "tensor/cuda/reduce/reduce_engine.h"

namespace tessera::cuda::reduction {

// What leaves: log(sum(exp(x))), or for softmax the largest element and, as the second result, 1 / sum(exp(x -
// largest)) or the log of that sum. The second result is NaN if the largest element is not finite.
enum class LogSumExpResult : uint8_t { kValue, kScale, kLog };

template <class V>
struct LogSumExp {
  using Value = V;
  struct Acc {
    V max;       // of what was seen; NaN once there is one
    double sum;  // of exp(x - max); 0 while max is -inf
  };
  using Local = Acc;
  LogSumExpResult result;

  static __device__ V larger(V a, V b) { return a >= b || a != a ? a : b; }
  static __device__ V infinity() { return std::numeric_limits<V>::infinity(); }

  __device__ Acc start() const { return {-infinity(), 0}; }
  __device__ Acc merge(const Acc& a, const Acc& b) const {
    if (a.max == b.max) return {a.max, a.sum + b.sum};
    const bool first = a.max > b.max || a.max != a.max;
    const V high = first ? a.max : b.max, low = first ? b.max : a.max;
    if (high != high || low != low) return {high != high ? high : low, 0};
    const double sum = first ? a.sum : b.sum, more = first ? b.sum : a.sum;
    return {high, sum + more * static_cast<double>(std::exp(low - high))};
  }
  __device__ void add(Acc& a, const V (&x)[kBatch], int64_t) const {
    const V max =
        larger(larger(larger(x[0], x[1]), larger(x[2], x[3])), larger(larger(x[4], x[5]), larger(x[6], x[7])));
    Acc b{max, 0};
    if (max == infinity()) {
      b.sum = 1;
    } else if (max > -infinity()) {
      V e[kBatch];
      for (int j = 0; j < kBatch; ++j) e[j] = std::exp(x[j] - max);
      b.sum = ((e[0] + e[1]) + (e[2] + e[3])) + ((e[4] + e[5]) + (e[6] + e[7]));
    }
    a = merge(a, b);
  }
  __device__ void add(Acc& a, V x, int64_t) const { a = merge(a, Acc{x, x > -infinity() ? 1.0 : 0.0}); }
  __device__ Acc close(const Acc& a) const { return a; }
  __device__ void finish(const Acc& a, int64_t, const Result (&r)[2]) const {
    const double max = a.max;
    if (result == LogSumExpResult::kValue) {
      store_any<V>(r[0].dtype, r[0].data, static_cast<V>(max == max ? max + std::log(a.sum) : max));
    } else {
      *reinterpret_cast<V*>(r[0].data) = a.max;
      *reinterpret_cast<V*>(r[1].data) =
          static_cast<V>((result == LogSumExpResult::kScale ? 1 / a.sum : std::log(a.sum)) + (max - max));
    }
  }
};

// Of complex numbers: scaled by the largest real part, of which an infinite one is left alone.
template <class T>
struct ComplexLogSumExp {
  using Value = Complex<T>;
  struct Acc {
    double max, re, im;
  };
  using Local = Acc;

  static __device__ double scale_of(double max) {
    return std::abs(max) < std::numeric_limits<double>::infinity() ? max : 0;
  }
  __device__ Acc start() const { return {-std::numeric_limits<double>::infinity(), 0, 0}; }
  __device__ Acc merge(const Acc& a, const Acc& b) const {
    const double m = scale_of(a.max >= b.max || a.max != a.max ? a.max : b.max), fa = std::exp(scale_of(a.max) - m),
                 fb = std::exp(scale_of(b.max) - m);
    const bool empty_a = a.re == 0 && a.im == 0, empty_b = b.re == 0 && b.im == 0;
    return {m, (empty_a ? 0 : a.re * fa) + (empty_b ? 0 : b.re * fb),
            (empty_a ? 0 : a.im * fa) + (empty_b ? 0 : b.im * fb)};
  }
  __device__ void add(Acc& a, Value x, int64_t) const {
    const double m = scale_of(x.real()), e = std::exp(static_cast<double>(x.real()) - m), angle = x.imag();
    a = merge(a, Acc{m, angle == 0 ? e : e * std::cos(angle), angle == 0 ? angle : e * std::sin(angle)});
  }
  __device__ void add(Acc& a, const Value (&x)[kBatch], int64_t) const {
#pragma unroll 1
    for (int j = 0; j < kBatch; ++j) add(a, x[j], 0);
  }
  __device__ Acc close(const Acc& a) const { return a; }
  __device__ void finish(const Acc& a, int64_t, const Result (&r)[2]) const {
    const Value v(static_cast<T>(a.max + std::log(hypot(a.re, a.im))), static_cast<T>(std::atan2(a.im, a.re)));
    store_any<Value>(r[0].dtype, r[0].data, v);
  }
};

}  // namespace tessera::cuda::reduction
