// Exponentials: matrices that take the same polynomial and as many squarings are one batch of products.
#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "linalg/cpu/matrix_exp_polynomials.h"
#include "linalg/cuda/columns.h"
#include "linalg/cuda/engines.h"
#include "tensor/cuda/gemm/engines.h"
#include "tensor/cuda/support/block.h"
#include "tensor/cuda/support/types.h"

namespace tessera::cuda {
namespace {

using cpu::ExponentialPlan;

constexpr int kMostTerms = 5;

// to[i] = the sum of weights[k] from[k][i], plus `diagonal` on the diagonals of n x n matrices of `parts` reals a
// number.
template <class R>
struct Combine {
  R* to;
  const R* from[kMostTerms];
  R weights[kMostTerms];
  int count;
  R diagonal;
  int64_t n, parts;
  __device__ void operator()(int64_t i) const {
    R sum = weights[0] * from[0][i];
    for (int k = 1; k < count; ++k) sum += weights[k] * from[k][i];
    const int64_t place = i / parts % (n * n);
    if (i % parts == 0 && place % (n + 1) == 0) sum += diagonal;
    to[i] = sum;
  }
};

template <class R>
__device__ R size_of(R x) {
  return x < 0 ? -x : x;
}
template <class R>
__device__ R size_of(const Complex<R>& x) {
  return hypot(x.real(), x.imag());
}
template <class R>
struct LargerOrNan {
  __device__ R operator()(R a, R b) const { return a != a || a > b ? a : b; }
};
// The largest sum of absolute values in a column of each matrix; nan, if there is one.
template <class T>
__global__ void norms_kernel(const T* a, int64_t count, int64_t n, Real<T>* norms) {
  using R = Real<T>;
  for (int64_t b = blockIdx.x; b < count; b += gridDim.x) {
    R largest = 0;
    for (int64_t j = threadIdx.x; j < n; j += blockDim.x) {
      R sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += size_of(a[(b * n + j) * n + i]);
      largest = LargerOrNan<R>()(sum, largest);
    }
    const R all = block_reduce(largest, LargerOrNan<R>());
    if (threadIdx.x == 0) norms[b] = all;
  }
}

// Some of the matrices of `all`, one behind the other in `some`, from or to where they belong.
template <class T>
struct MoveChosen {
  T *all, *some;
  const int64_t* chosen;
  int64_t size;
  bool back;
  __device__ void operator()(int64_t i) const {
    T& one = all[chosen[i / size] * size + i % size];
    if (back)
      one = some[i];
    else
      some[i] = one;
  }
};

template <class T>
struct ExponentialOfNumber {
  T* x;
  __device__ void operator()(int64_t i) const {
    if constexpr (is_complex_type<T>)
      x[i] = ::cuda::std::exp(x[i]);
    else
      x[i] = exp(x[i]);
  }
};

// A batch of matrices by columns.
template <class T>
class Exponentials : public cpu::ExponentialPolynomials<Exponentials<T>, Real<T>*> {
  using R = Real<T>;
  using Polynomials = cpu::ExponentialPolynomials<Exponentials<T>, R*>;
  using Term = typename Polynomials::Term;
  static constexpr int64_t kParts = is_complex_type<T> ? 2 : 1;

 public:
  Exponentials(DType dtype, int64_t count, int64_t n)
      : dtype_(dtype),
        count_(count),
        n_(n),
        room_(static_cast<size_t>(Polynomials::kMatrices * count * n * n) * sizeof(T)) {}
  T* input() const { return reinterpret_cast<T*>(room(0)); }
  T* result(const ExponentialPlan& plan) {
    R* const r =
        plan.polynomial == ExponentialPlan::kNone ? combined(room(0), 0, {{room(0), nan()}}) : this->exponential(plan);
    return reinterpret_cast<T*>(r);
  }

 private:
  friend Polynomials;

  static double nan() { return std::numeric_limits<double>::quiet_NaN(); }
  R* room(int i) const { return room_.template as<R>() + i * count_ * n_ * n_ * kParts; }

  template <int N>
  R* combined(R* to, double diagonal, const Term (&terms)[N]) const {
    static_assert(N <= kMostTerms);
    Combine<R> combine{to, {}, {}, N, static_cast<R>(diagonal), n_, kParts};
    for (int k = 0; k < N; ++k) {
      combine.from[k] = terms[k].matrix;
      combine.weights[k] = static_cast<R>(terms[k].weight);
    }
    for_each(count_ * n_ * n_ * kParts, combine);
    return to;
  }
  R* product(R* a, R* b, R* to, bool add) const {
    const auto number = [](double x) {
      KernelParam p{};
      (kParts == 2 ? p.c[0] : p.f) = x;
      return p;
    };
    const int64_t step = n_ * n_;
    cuda::gemm_batched(dtype_, count_, n_, n_, n_, number(1), {a, 1, n_}, step, {b, 1, n_}, step, number(add ? 1 : 0),
                       {to, 1, n_}, step, false, false);
    return to;
  }

  DType dtype_;
  int64_t count_, n_;
  Buffer room_;
};

template <class T>
void exponentials(DType dtype, const Columns& all) {
  using R = Real<T>;
  const int64_t n = all.rows, size = n * n;
  T* const data = static_cast<T*>(all.data);
  if (n == 1) return for_each(all.count, ExponentialOfNumber<T>{data});
  const Buffer norms(static_cast<size_t>(all.count) * sizeof(R));
  launch_blocks(norms_kernel<T>, dim3(static_cast<unsigned>(std::min<int64_t>(all.count, 1 << 16))), dim3(128), 0,
                static_cast<const T*>(data), all.count, n, norms.as<R>());
  std::vector<R> host(static_cast<size_t>(all.count));
  copy_to_host(host.data(), norms.get(), host.size() * sizeof(R));
  std::map<ExponentialPlan, std::vector<int64_t>> groups;
  for (size_t b = 0; b < host.size(); ++b)
    groups[ExponentialPlan::of(static_cast<double>(host[b]), sizeof(R) == 4)].push_back(static_cast<int64_t>(b));
  for (const auto& [plan, chosen] : groups) {
    const auto count = static_cast<int64_t>(chosen.size());
    const Buffer numbers(chosen.size() * sizeof(int64_t));
    copy_to_device(numbers.get(), chosen.data(), chosen.size() * sizeof(int64_t));
    Exponentials<T> batch(dtype, count, n);
    for_each(count * size, MoveChosen<T>{data, batch.input(), numbers.as<int64_t>(), size, false});
    for_each(count * size, MoveChosen<T>{data, batch.result(plan), numbers.as<int64_t>(), size, true});
  }
}

}  // namespace

void run_matrix_exp(DType dtype, const MatrixBatch& m) {
  if (m.count == 0 || m.rows == 0) return;
  const OwnColumns own(dtype, m);
  visit<kFloats | kComplexes>(dtype, "matrix_exp",
                              [&](auto tag) { exponentials<typename decltype(tag)::type>(dtype, *own); });
  copy_matrices(dtype, m, own->batch());
}

}  // namespace tessera::cuda
