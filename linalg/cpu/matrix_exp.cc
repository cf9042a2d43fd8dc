// Exponentials of each matrix on one thread, or of one by all.
#include "linalg/cpu/matrix_exp.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

#include "linalg/cpu/batches.h"
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
// to (+)= a b of n x n real numbers in rows of kWidth; `to` is neither of the others.
template <int kWidth, class R>
void small_product(int64_t n, const R* a, const R* b, R* to, bool add) {
  const hn::CappedTag<R, kWidth> d;
  constexpr int kRows = 4;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; i += kRows)
    for (int64_t j = 0; j < n; j += lanes) {
      hn::Vec<decltype(d)> sums[kRows];
      const R* rows[kRows];
      TESSERA_UNROLL for (int r = 0; r < kRows; ++r) {
        const int64_t row = std::min(i + r, n - 1) * kWidth;
        rows[r] = a + row;
        sums[r] = add ? hn::LoadU(d, to + row + j) : hn::Zero(d);
      }
      for (int64_t k = 0; k < n; ++k) {
        const auto x = hn::LoadU(d, b + k * kWidth + j);
        TESSERA_UNROLL for (int r = 0; r < kRows; ++r) sums[r] = hn::MulAdd(hn::Set(d, rows[r][k]), x, sums[r]);
      }
      TESSERA_UNROLL for (int r = 0; r < kRows; ++r) if (i + r < n) hn::StoreU(sums[r], d, to + (i + r) * kWidth + j);
    }
}
void small_product_f32(int64_t n, int64_t width, const float* a, const float* b, float* to, bool add) {
  width == 8 ? small_product<8>(n, a, b, to, add) : small_product<16>(n, a, b, to, add);
}
void small_product_f64(int64_t n, int64_t width, const double* a, const double* b, double* to, bool add) {
  width == 8 ? small_product<8>(n, a, b, to, add) : small_product<16>(n, a, b, to, add);
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
TESSERA_SIMD_TABLE(small_product_f32);
TESSERA_SIMD_TABLE(small_product_f64);

void small_product(int64_t n, int64_t width, const float* a, const float* b, float* to, bool add) {
  TESSERA_SIMD(small_product_f32)(n, width, a, b, to, add);
}
void small_product(int64_t n, int64_t width, const double* a, const double* b, double* to, bool add) {
  TESSERA_SIMD(small_product_f64)(n, width, a, b, to, add);
}

void combine(float* to, const float* const* terms, const float* weights, int count, int64_t n) {
  TESSERA_SIMD(combine_f32)(to, terms, weights, count, n);
}
void combine(double* to, const double* const* terms, const double* weights, int count, int64_t n) {
  TESSERA_SIMD(combine_f64)(to, terms, weights, count, n);
}

constexpr int64_t kPadding = 16;
// Real matrices of so few rows are multiplied here, in rows of whole vectors: what a general product does before and
// after takes longer.
constexpr int64_t kSmall = 16;

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
        is_small_(pairs_ == 1 && n <= kSmall),
        width_(!is_small_ ? n
               : n <= 8   ? 8
                          : kSmall),
        size_(n * width_ * pairs_),
        room_(Polynomials::kMatrices * (size_ + kPadding) + n) {}

  // In place; rows lie `stride` numbers apart.
  void operator()(R* data, int64_t stride) {
    const int64_t row = n_ * pairs_, step = width_ * pairs_;
    R* A = room(0);
    for (int64_t i = 0; i < n_; ++i) {
      std::copy_n(data + i * stride * pairs_, row, A + i * step);
      std::fill(A + i * step + row, A + (i + 1) * step, R(0));
    }
    const R* result = of(A);
    for (int64_t i = 0; i < n_; ++i) std::copy_n(result + i * step, row, data + i * stride * pairs_);
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
      const R* row = A + i * width_ * pairs_;
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
      for (int64_t i = 0; i < n_; ++i) to[i * (width_ + 1) * pairs_] += static_cast<R>(diagonal);
    return to;
  }

  R* product(const R* a, const R* b, R* to, bool add) const {
    if (is_small_) {
      small_product(n_, width_, a, b, to, add);
      return to;
    }
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
  int64_t n_, pairs_;
  bool is_small_;
  int64_t width_, size_;  // numbers from row to row; reals of a matrix
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
