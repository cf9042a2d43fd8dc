// Products, counts, and the sums of complex numbers and of their absolute values.
#include <cmath>

#include "tensor/cuda/reduce/reduce_engine.h"
#include "tensor/cuda/reduce/reduce_input.h"
#include "tensor/cuda/reduce/reduce_kinds.h"
#include "tensor/cuda/reduce/reduce_sum.h"

namespace tessera::cuda::reduction {
namespace {

// In the accumulators of sums.
template <class V>
struct Product {
  using Value = V;
  using Acc = SumType<V>;
  using Local = Acc;

  static __device__ Acc of(V x) {
    if constexpr (is_complex_type<V>)
      return Acc(x.real(), x.imag());
    else
      return static_cast<Acc>(x);
  }
  __device__ Acc start() const { return Acc(1); }
  __device__ Acc merge(const Acc& a, const Acc& b) const {
    if constexpr (is_complex_type<V>)
      return Acc(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
    else
      return a * b;
  }
  __device__ void add(Acc& a, const V (&x)[kBatch], int64_t) const {
    a = merge(a, merge(merge(merge(of(x[0]), of(x[1])), merge(of(x[2]), of(x[3]))),
                       merge(merge(of(x[4]), of(x[5])), merge(of(x[6]), of(x[7])))));
  }
  __device__ void add(Acc& a, V x, int64_t) const { a = merge(a, of(x)); }
  __device__ Acc close(const Acc& a) const { return a; }
  __device__ void finish(const Acc& a, int64_t, const Result (&r)[2]) const {
    if constexpr (is_complex_type<V>)
      store_any<V>(r[0].dtype, r[0].data, V(static_cast<Real<V>>(a.real()), static_cast<Real<V>>(a.imag())));
    else
      store_any<V>(r[0].dtype, r[0].data, static_cast<V>(a));
  }
};

// Elements that are not zero.
struct CountTrue {
  using Value = bool;
  using Acc = int64_t;
  using Local = int64_t;
  Count what;

  __device__ Acc start() const { return 0; }
  __device__ void add(Acc& a, const bool (&x)[kBatch], int64_t) const {
    a += tree_of_eight([&](int j) { return static_cast<int>(x[j]); });
  }
  __device__ void add(Acc& a, bool x, int64_t) const { a += x; }
  __device__ Acc close(Acc a) const { return a; }
  __device__ Acc merge(Acc a, Acc b) const { return a + b; }
  __device__ void finish(Acc a, int64_t count, const Result (&r)[2]) const {
    store_any<int64_t>(r[0].dtype, r[0].data, what == Count::kNumber ? a : what == Count::kAny ? a > 0 : a == count);
  }
};

}  // namespace

void count(Count what, const Problem& c) { run(CountTrue{what}, c.shape, c.mask, c.in, c.out); }

bool sum_complex(bool mean, DType dtype, const Problem& c) {
  const Ending ending = mean ? Ending::kMean : Ending::kNone;
  switch (dtype) {
    case DType::kComplex64:
      run(Sum<Complex<float>, true>{Term::kPlain, ending, 0}, c.shape, c.mask, c.in, c.out);
      return true;
    case DType::kComplex128:
      run(Sum<Complex<double>, true>{Term::kPlain, ending, 0}, c.shape, c.mask, c.in, c.out);
      return true;
    default:
      return false;
  }
}

bool sum_of_abs(Term term, Ending ending, double p, DType dtype, const Problem& c) {
  if (dtype != DType::kComplex64 && dtype != DType::kComplex128) return false;
  // Powers are taken of what was not rounded.
  const AbsInput in{static_cast<const char*>(c.in.data), c.in.dtype,
                    dtype == DType::kComplex64 && term != Term::kPower};
  run(Sum<double, false>{term, ending, p}, in, c.shape, c.mask, {c.in}, {c.out, kNoResult});
  return true;
}

bool product(DType dtype, const Problem& c) {
  switch (dtype) {
    case DType::kFloat32:
      run(Product<float>(), c.shape, c.mask, c.in, c.out);
      return true;
    case DType::kFloat64:
      run(Product<double>(), c.shape, c.mask, c.in, c.out);
      return true;
    case DType::kInt64:
      run(Product<int64_t>(), c.shape, c.mask, c.in, c.out);
      return true;
    case DType::kComplex64:
      run(Product<Complex<float>>(), c.shape, c.mask, c.in, c.out);
      return true;
    case DType::kComplex128:
      run(Product<Complex<double>>(), c.shape, c.mask, c.in, c.out);
      return true;
    default:
      return false;
  }
}

}  // namespace tessera::cuda::reduction
