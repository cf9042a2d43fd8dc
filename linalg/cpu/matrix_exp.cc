// Exponentials of each matrix on one thread, or of one by all.
#include "linalg/cpu/matrix_exp.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

#include "linalg/cpu/matrix_exp_polynomials.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/gemm/gemm.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "linalg/cpu/matrix_exp.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// to[i] = sum of weights[k] terms[k][i] for whole vectors, so up to kPadding elements after n; count terms, at least
// one. `to` may be one of them.
template <class R>
void combine(R* to, const R* const* terms, const R* weights, int count, int64_t n) {
  const hn::ScalableTag<R> d;
  const int64_t lanes = hn::Lanes(d);
  for (int64_t i = 0; i < n; i += lanes) {
    auto sum = hn::Mul(hn::Set(d, weights[0]), hn::LoadU(d, terms[0] + i));
    for (int k = 1; k < count; ++k) sum = hn::MulAdd(hn::Set(d, weights[k]), hn::LoadU(d, terms[k] + i), sum);
    hn::StoreU(sum, d, to + i);
  }
}
void combine_f32(float* to, const float* const* terms, const float* weights, int count, int64_t n) {
  combine(to, terms, weights, count, n);
}
void combine_f64(double* to, const double* const* terms, const double* weights, int count, int64_t n) {
  combine(to, terms, weights, count, n);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

TESSERA_SIMD_TABLE(combine_f32);
TESSERA_SIMD_TABLE(combine_f64);

void combine(float* to, const float* const* terms, const float* weights, int count, int64_t n) {
  TESSERA_SIMD(combine_f32)(to, terms, weights, count, n);
}
void combine(double* to, const double* const* terms, const double* weights, int count, int64_t n) {
  TESSERA_SIMD(combine_f64)(to, terms, weights, count, n);
}

constexpr int64_t kPadding = 16;

// A matrix of n rows of `pairs` reals a number (complex: 2), with room for what its exponential is made of.
template <class R>
class Exponential : public ExponentialPolynomials<Exponential<R>, R*> {
  using Polynomials = ExponentialPolynomials<Exponential<R>, R*>;
  using Term = typename Polynomials::Term;

 public:
  Exponential(DType dtype, int64_t n)
      : dtype_(dtype),
        n_(n),
        pairs_(is_complex(dtype) ? 2 : 1),
        size_(n * n * pairs_),
        room_(Polynomials::kMatrices * (size_ + kPadding) + n) {}

  // In place; rows lie `stride` numbers apart.
  void operator()(R* data, int64_t stride) {
    const int64_t row = n_ * pairs_;
    R* A = room(0);
    for (int64_t i = 0; i < n_; ++i) std::copy_n(data + i * stride * pairs_, row, A + i * row);
    const R* result = of(A);
    for (int64_t i = 0; i < n_; ++i) std::copy_n(result + i * row, row, data + i * stride * pairs_);
  }

 private:
  friend Polynomials;

  const R* of(R* A) {
    const auto plan = ExponentialPlan::of(norm_of(A), sizeof(R) == 4);
    if (plan.polynomial != ExponentialPlan::kNone) return this->exponential(plan);
    std::fill_n(A, size_, std::numeric_limits<R>::quiet_NaN());
    return A;
  }

  R* room(int i) const { return room_.get() + i * (size_ + kPadding); }

  // The largest sum of absolute values in a column.
  double norm_of(const R* A) const {
    R* sums = room(Polynomials::kMatrices);
    std::fill_n(sums, n_, R(0));
    for (int64_t i = 0; i < n_; ++i) {
      const R* row = A + i * n_ * pairs_;
      if (pairs_ == 1)
        for (int64_t j = 0; j < n_; ++j) sums[j] += std::abs(row[j]);
      else
        for (int64_t j = 0; j < n_; ++j) sums[j] += std::hypot(row[2 * j], row[2 * j + 1]);
    }
    double norm = 0;
    for (int64_t j = 0; j < n_; ++j)
      if (!(sums[j] <= norm)) norm = sums[j];  // nan stays
    return norm;
  }

  template <int N>
  R* combined(R* to, double diagonal, const Term (&terms)[N]) const {
    const R* from[N];
    R weights[N];
    for (int k = 0; k < N; ++k) {
      from[k] = terms[k].matrix;
      weights[k] = static_cast<R>(terms[k].weight);
    }
    parallel_ranges(size_, int64_t{1} << 15, [&](int64_t begin, int64_t end) {
      const R* at[N];
      for (int k = 0; k < N; ++k) at[k] = from[k] + begin;
      combine(to + begin, at, weights, N, end - begin);
    });
    if (diagonal != 0)
      for (int64_t i = 0; i < n_; ++i) to[i * (n_ + 1) * pairs_] += static_cast<R>(diagonal);
    return to;
  }

  R* product(const R* a, const R* b, R* to, bool add) const {
    const auto number = [&](double x) {
      KernelParam p{};
      (pairs_ == 2 ? p.c[0] : p.f) = x;
      return p;
    };
    gemm_wide(dtype_, n_, n_, n_, number(1), {const_cast<R*>(a), n_, 1}, {const_cast<R*>(b), n_, 1},
              number(add ? 1 : 0), {to, n_, 1});
    return to;
  }

  DType dtype_;
  int64_t n_, pairs_, size_;
  internal::ScratchArray<R> room_;
};

template <class T>
void exponentials_of_numbers(const MatrixBatch& m) {
  for (int64_t i = 0; i < m.count; ++i) {
    T& x = static_cast<T*>(m.data)[i * m.batch_stride];
    x = std::exp(x);
  }
}

template <class T, class R>
void exponentials(DType dtype, const MatrixBatch& m) {
  if (m.rows == 1) return exponentials_of_numbers<T>(m);
  // exp of a transpose is the transpose of exp.
  const int64_t n = m.rows, stride = m.col_stride == 1 ? m.row_stride : m.col_stride;
  // One matrix a thread, unless they are few and large: then all threads work on each.
  const bool large = n > 64 && m.count < 16;
  const int64_t at_once = std::max<int64_t>(1, 50000 / (n * n * n));
  const auto pieces = [&](int64_t begin, int64_t end) {
    Exponential<R> exponential(dtype, n);
    for (int64_t i = begin; i < end; ++i)
      exponential(reinterpret_cast<R*>(static_cast<T*>(m.data) + i * m.batch_stride), stride);
  };
  if (large)
    pieces(0, m.count);
  else
    parallel_for(m.count, at_once, pieces);
}

}  // namespace

void run_matrix_exp(DType dtype, const MatrixBatch& m) {
  if (m.count == 0 || m.rows == 0) return;
  switch (dtype) {
    case DType::kFloat32:
      return exponentials<float, float>(dtype, m);
    case DType::kFloat64:
      return exponentials<double, double>(dtype, m);
    case DType::kComplex64:
      return exponentials<std::complex<float>, float>(dtype, m);
    default:
      return exponentials<std::complex<double>, double>(dtype, m);
  }
}

}  // namespace tessera::cpu
#endif
