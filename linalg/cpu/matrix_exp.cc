// exp(A) by a Taylor polynomial of A / 2^s, squared s times.
//
// The polynomials have the degrees 1, 2, 4, 8, 12 and 18, which take 0, 1, 2, 3, 4 and 5 products by the schemes of
// P. Bader, S. Blanes and F. Casas, "Computing the matrix exponential with an optimized Taylor polynomial
// approximation", Mathematics 7 (2019) 1174; its table 2 says up to which 1-norm of A each is exact to rounding. Only
// the last is scaled.
#include "linalg/cpu/matrix_exp.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

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

// The largest 1-norms for the degrees 1, 2, 4, 8, 12 and 18.
constexpr double kLargest[2][6] = {{1.192092800768788e-07, 5.978858893805233e-04, 5.116619363445086e-02,
                                    5.800524627688768e-01, 1.461661507209034e+00, 3.010066362817634e+00},
                                   {2.220446049250313e-16, 2.580956802971767e-08, 3.397168839976962e-04,
                                    4.991228871115323e-02, 2.996158913811580e-01, 1.090863719290036e+00}};

constexpr int kMatrices = 7;
constexpr int64_t kPadding = 16;

// A matrix of n rows of `pairs` reals a number (complex: 2), with room for what its exponential is made of.
template <class R>
class Exponential {
 public:
  Exponential(DType dtype, int64_t n)
      : dtype_(dtype),
        n_(n),
        pairs_(is_complex(dtype) ? 2 : 1),
        size_(n * n * pairs_),
        room_(kMatrices * (size_ + kPadding) + n) {
    for (int i = 0; i < kMatrices; ++i) free_[i] = room_.get() + i * (size_ + kPadding);
  }

  // In place; rows lie `stride` numbers apart.
  void operator()(R* data, int64_t stride) {
    const int64_t row = n_ * pairs_;
    R* A = free_[0];
    for (int64_t i = 0; i < n_; ++i) std::copy_n(data + i * stride * pairs_, row, A + i * row);
    const R* result = of(A);
    for (int64_t i = 0; i < n_; ++i) std::copy_n(result + i * row, row, data + i * stride * pairs_);
  }

 private:
  struct Term {
    const R* matrix;
    double weight;
  };

  const R* of(R* A) {
    const double norm = norm_of(A);
    if (!(norm < std::numeric_limits<double>::infinity())) {
      std::fill_n(A, size_, std::numeric_limits<R>::quiet_NaN());
      return A;
    }
    const double* largest = kLargest[sizeof(R) == 8];
    if (norm <= largest[0]) return combined(free_[1], 1, {{A, 1}});
    if (norm <= largest[1]) return degree_2(A);
    if (norm <= largest[2]) return degree_4(A);
    if (norm <= largest[3]) return degree_8(A);
    if (norm <= largest[4]) return degree_12(A);
    const int squarings = norm <= largest[5] ? 0 : std::max(0, std::ilogb(norm / largest[5]) + 1);
    if (squarings > 0) scale(A, squarings);
    R* power = degree_18(A);
    R* next = A;
    for (int i = 0; i < squarings; ++i) {
      product(power, power, next, false);
      std::swap(power, next);
    }
    return power;
  }

  // The largest sum of absolute values in a column.
  double norm_of(const R* A) const {
    R* sums = room_.get() + kMatrices * (size_ + kPadding);
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

  // A / 2^exponent, exactly unless it underflows.
  void scale(R* A, int exponent) const {
    for (int64_t i = 0; i < size_; ++i) A[i] = std::ldexp(A[i], -exponent);
  }

  // `to`: diagonal times the identity, plus the terms.
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

  // `to` = a b, or with `add` what is there as well.
  R* product(const R* a, const R* b, R* to, bool add) const {
    const auto number = [&](double x) {
      KernelParam p{};
      (pairs_ == 2 ? p.c[0] : p.f) = x;
      return p;
    };
    gemm(dtype_, n_, n_, n_, number(1), {const_cast<R*>(a), n_, 1}, {const_cast<R*>(b), n_, 1}, number(add ? 1 : 0),
         {to, n_, 1});
    return to;
  }

  R* degree_2(const R* A) {
    const R* A2 = product(A, A, free_[1], false);
    return combined(free_[2], 1, {{A, 1}, {A2, 0.5}});
  }

  R* degree_4(const R* A) {
    const R* A2 = product(A, A, free_[1], false);
    const R* rest = combined(free_[2], 0.5, {{A, 1.0 / 6}, {A2, 1.0 / 24}});
    return product(A2, rest, combined(free_[3], 1, {{A, 1}}), true);
  }

  R* degree_8(const R* A) {
    const R* A2 = product(A, A, free_[1], false);
    const R* A4 = product(A2, combined(free_[2], 0, {{A, 0.10836465678522780852}, {A2, 0.027091164196306952131}}),
                          free_[3], false);
    const R* left = combined(free_[2], 0, {{A2, 2.0 / 3}, {A4, 1}});
    const R* right =
        combined(free_[4], 0.54676145797072405251,
                 {{A, 0.16112557339541759283}, {A2, 0.014090917158378207731}, {A4, 0.033792797010870504141}});
    return product(left, right, combined(free_[5], 1, {{A, 1}, {A2, 0.13549236135285063166}}), true);
  }

  R* degree_12(const R* A) {
    const R* A2 = product(A, A, free_[1], false);
    const R* A3 = product(A2, A, free_[2], false);
    const auto cubic = [&](R* to, double c0, double c1, double c2, double c3) {
      return combined(to, c0, {{A, c1}, {A2, c2}, {A3, c3}});
    };
    const R* root =
        cubic(free_[3], -2.0861320e-13, -0.13181061013830184015, -0.02027855540589259079, -0.00675951846863086359);
    R* A6 =
        cubic(free_[4], 0.18188869982170434744, 0.05502798439925399070, 0.09351590770535414968, 0.00610700528898058230);
    product(root, root, A6, true);
    R* left =
        cubic(free_[3], 5.31597895759871264183, 1.19926790417132231573, 0.01179296240992997031, 0.01108844528519167989);
    combined(left, 0, {{left, 1}, {A6, 1}});
    R* result = cubic(free_[5], 9.0198e-16, 0.46932117595418237389, -0.20099424927047284052, -0.04623946134063071740);
    return product(left, A6, result, true);
  }

  R* degree_18(R* A) {
    const R* A2 = product(A, A, free_[1], false);
    const R* A3 = product(A2, A, free_[2], false);
    const R* A6 = product(A3, A3, free_[3], false);
    const R* left = combined(
        free_[4], 0, {{A, -0.10036558103014462001}, {A2, -0.00802924648241156960}, {A3, -0.00089213849804572995}});
    const R* right = combined(
        free_[5], 0, {{A2, -0.09233646193671185927}, {A3, -0.01693649390020817171}, {A6, -0.00001400867981820361}});
    R* A9 = combined(free_[6], -0.09043168323908105619,
                     {{A, -0.06764045190713819075},
                      {A2, 0.06759613017704596460},
                      {A3, 0.02955525704293155274},
                      {A6, -0.00001391802575160607}});
    product(left, right, A9, true);
    const R* sum = combined(free_[4], -10.9676396052962062593,
                            {{A, 1.68015813878906197182},
                             {A2, 0.05717798464788655127},
                             {A3, -0.00698210122488052084},
                             {A6, 0.00003349750170860705},
                             {A9, 1}});
    R* result = combined(free_[5], 0,
                         {{A, 0.39784974949964507614},
                          {A2, 1.36783778460411719922},
                          {A3, 0.49828962252538267755},
                          {A6, -0.00063789819459472330}});
    return product(sum, A9, result, true);
  }

  DType dtype_;
  int64_t n_, pairs_, size_;
  internal::ScratchArray<R> room_;
  R* free_[kMatrices];  // the first holds A
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
