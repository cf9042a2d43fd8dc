// The operator of sums.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "tensor/cuda/reduce/reduce_elements.h"
#include "tensor/cuda/reduce/reduce_engine.h"
#include "tensor/cuda/reduce/reduce_kinds.h"

namespace tessera::cuda::reduction {

// Sums of floating numbers are taken in float64, those of integers modulo 2^64.
template <class V>
using SumType = std::conditional_t<std::is_floating_point_v<V>, double,
                                   std::conditional_t<is_complex_type<V>, Complex<double>, uint64_t>>;

__device__ __attribute__((noinline)) inline double power(double x, double p) { return std::pow(x, p); }

// f(0) ... f(7) added in a tree.
template <class F>
__device__ auto tree_of_eight(F f) {
  return ((f(0) + f(1)) + (f(2) + f(3))) + ((f(4) + f(5)) + (f(6) + f(7)));
}

// Plain: terms are the elements. Else what `term` says.
template <class V, bool kPlain>
struct Sum {
  using Value = V;
  using Acc = SumType<V>;
  using Local = Acc;
  Term term;
  Ending ending;
  double p;

  __device__ Acc of(V x) const {
    if constexpr (is_complex_type<V>) {
      return Acc(x.real(), x.imag());
    } else if constexpr (kPlain) {
      return static_cast<Acc>(x);
    } else {
      if (term == Term::kNoNan) return x != x ? 0 : static_cast<Acc>(x);
      const Acc a = std::fabs(static_cast<Acc>(x));
      if constexpr (std::is_same_v<V, double>) {
        if (term == Term::kPower) return power(a, p);
      }
      return term == Term::kSquare ? a * a : a;
    }
  }
  __device__ Acc start() const { return Acc(0); }
  __device__ void add(Acc& a, const V (&x)[kBatch], int64_t) const {
    a += tree_of_eight([&](int j) { return of(x[j]); });
  }
  __device__ void add(Acc& a, V x, int64_t) const { a += of(x); }
  __device__ Acc close(Acc a) const { return a; }
  __device__ Acc merge(Acc a, Acc b) const { return a + b; }
  __device__ void finish(const Acc& a, int64_t count, const Result (&r)[2]) const {
    const DType t = r[0].dtype;
    if constexpr (is_complex_type<V>) {
      const double n = ending == Ending::kMean ? static_cast<double>(count) : 1;
      store_any<V>(t, r[0].data, V(static_cast<Real<V>>(a.real() / n), static_cast<Real<V>>(a.imag() / n)));
    } else if constexpr (std::is_floating_point_v<V>) {
      double v = a;
      if (ending == Ending::kMean)
        v /= static_cast<double>(count);
      else if (ending == Ending::kRoot && p != 1)
        v = p == 2 ? std::sqrt(v) : power(v, 1 / p);
      store_any<V>(t, r[0].data, static_cast<V>(v));
    } else {
      store_any<int64_t>(t, r[0].data, static_cast<int64_t>(a));
    }
  }
};

}  // namespace tessera::cuda::reduction
